"""Orders that do not follow from addresses: of sets of objects, and of maps in encoded protobuf messages."""

import itertools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from google.protobuf.message import Message

from tests.simulation.world.patching import patch

OURS = ("protocols.", "actors.", "supervisor.", "aiohttp.")


def order_sets() -> None:
    """Give every class of ours that hashes by address a hash by first use."""
    for name, module in list(sys.modules.items()):
        if name.startswith(OURS) and isinstance(module, ModuleType):
            for found in list(vars(module).values()):
                if isinstance(found, type) and found.__module__ == name:
                    _order(found)


def order_maps() -> None:
    """Encode the entries of protobuf maps by their keys: else their order follows from where the library is loaded."""
    for name, module in list(sys.modules.items()):
        if name.startswith("protocols.wire.") and name.endswith("_pb2"):
            for found in vars(module).values():
                if isinstance(found, type) and issubclass(found, Message):
                    patch(found, "SerializeToString", _by_key(found.SerializeToString))


def _by_key(encode: Callable[..., bytes]) -> Callable[..., bytes]:
    def encoded(message: Message, deterministic: bool = True) -> bytes:
        return encode(message, deterministic=True)

    return encoded


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
