"""The vocabulary of patching."""

from typing import NamedTuple

import msgspec

from protocols.dra.types import Attribute, Capacity, Patch, Rule, Taint

Rank = tuple[int, float, str]
"""Of a patch: the smaller one wins."""
TaintKey = tuple[str, str]
"""(key, effect): what makes two taints the same one."""


class Gates(msgspec.Struct, frozen=True):
    attributes: bool = True
    """DRAAdminControlledDeviceAttributes: attributes and capacity of patches."""
    taints: bool = True
    """DRADeviceTaints: taints of patches, and rules."""


class Known(NamedTuple):
    """One version of a patch, ready to be asked about devices."""

    serial: int
    """Of no other version of any patch."""
    rank: Rank
    patch: Patch

    @property
    def conditional(self) -> bool:
        """Names alone do not decide whether it applies."""
        return bool(self.patch.filter.class_name is not None or self.patch.filter.selectors)


class KnownRule(NamedTuple):
    serial: int
    rank: str
    rule: Rule


class Effect(NamedTuple):
    """What is done to a device; made once for all devices that the same patches apply to."""

    attributes: dict[str, Attribute]
    removed: tuple[str, ...]
    capacity: dict[str, Capacity]
    taints: dict[TaintKey, Taint]
    """By precedence."""


NO_EFFECT = Effect({}, (), {}, {})
