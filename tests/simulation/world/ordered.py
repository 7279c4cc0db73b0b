"""Hashes without addresses: sets of objects have the same order in each run, on every machine."""

import itertools
import sys
from types import ModuleType
from typing import Any

from tests.simulation.world.patching import patch

OURS = ("protocols.", "actors.", "supervisor.", "aiohttp.")


def order_sets() -> None:
    """Give every class of ours that hashes by address a hash by first use."""
    for name, module in list(sys.modules.items()):
        if name.startswith(OURS) and isinstance(module, ModuleType):
            for found in list(vars(module).values()):
                if isinstance(found, type) and found.__module__ == name:
                    _order(found)


_numbers = itertools.count(1)
_slotted: dict[int, tuple[int, object]] = {}
"""Numbers of hashed objects without room for one, by address. They are held, so that no other takes the address."""


def _by_first_use(self: Any) -> int:
    try:
        return self._simulated_hash  # type: ignore[no-any-return]
    except AttributeError:
        number = next(_numbers)
        object.__setattr__(self, "_simulated_hash", number)
        return number


def _slotted_by_first_use(self: Any) -> int:
    known = _slotted.get(id(self))
    if known is None:
        known = _slotted[id(self)] = next(_numbers), self
    return known[0]


def _order(found: type) -> None:
    hashed: Any = found.__hash__
    if hashed in (object.__hash__, _by_first_use, _slotted_by_first_use):
        room = getattr(found, "__dictoffset__", False)
        try:
            patch(found, "__hash__", _by_first_use if room else _slotted_by_first_use)
        except TypeError:  # not of Python
            return
