"""Types of patching, and the merge of a published device with an effect.

What does not change is the same object as before.
"""

from collections.abc import Mapping
from typing import NamedTuple

from protocols.dra.types import Attribute, Capacity, Device, Patch, TaintRule
from protocols.kube.taints import Taint

Rank = tuple[int, float, str]
"""Rank of a patch: the smaller one wins."""
TaintKey = tuple[str, str]
"""(key, effect): what makes two taints the same one."""


class Known(NamedTuple):
    """One version of a patch, ready to be asked about devices."""

    serial: int
    """Unique over all versions of all patches."""
    rank: Rank
    patch: Patch

    @property
    def is_conditional(self) -> bool:
        """Return True if selectors, not only names, decide whether the patch applies."""
        return bool(self.patch.filter.class_name is not None or self.patch.filter.selectors)


class KnownRule(NamedTuple):
    """A rule as it is indexed: `serial` identifies this version of it, `rank` orders taints of several rules."""

    serial: int
    rank: str
    rule: TaintRule


class Effect(NamedTuple):
    """The combined change of several patches, shared by all devices that they apply to."""

    attributes: dict[str, Attribute]
    removed: tuple[str, ...]
    capacity: dict[str, Capacity]
    taints: dict[TaintKey, Taint]
    """By precedence."""


NO_EFFECT = Effect({}, (), {}, {})


def patched(device: Device, effect: Effect, rules: tuple[Taint, ...] = ()) -> Device:
    """Merge a device with an effect and with the taints of `rules`; the same object if nothing differs."""
    if effect is NO_EFFECT and not rules:
        return device
    merged = Device(
        device.name,
        _attributes(device.attributes, effect),
        _capacity(device.capacity, effect.capacity) if effect.capacity else device.capacity,
        (_taints(device.taints, effect) if effect.taints else device.taints) + rules,
        device.extras,
    )
    return device if merged == device else merged


def _attributes(published: Mapping[str, Attribute], effect: Effect) -> Mapping[str, Attribute]:
    if not effect.attributes and not effect.removed:
        return published
    merged = {**published, **effect.attributes}
    for name in effect.removed:
        merged.pop(name, None)
    return merged


def _capacity(published: Mapping[str, Capacity], patched: dict[str, Capacity]) -> Mapping[str, Capacity]:
    """A patch changes amounts; which amounts may be asked for stays the driver's word."""
    merged = {**published, **patched}
    for name, capacity in patched.items():
        own = published.get(name)
        if own is not None and own.policy is not None:
            merged[name] = Capacity(capacity.value, own.policy)
    return merged


def _taints(published: tuple[Taint, ...], effect: Effect) -> tuple[Taint, ...]:
    """The driver's in their places, replaced where a patch names the same key and effect; new ones behind them."""
    own = {(taint.key, taint.effect) for taint in published}
    kept = [effect.taints.get((taint.key, taint.effect), taint) for taint in published]
    return (*kept, *[taint for identity, taint in effect.taints.items() if identity not in own])
