"""The vocabulary of the tracker."""

from typing import NamedTuple

import msgspec

from protocols.dra.types import DeviceId, Slice


class Change(NamedTuple):
    """What became of one slice, patched. Told when the cache has it already."""

    old: Slice | None
    """None = the slice is new."""
    new: Slice | None
    """None = it is gone."""


class Counts(msgspec.Struct):
    """Since the start."""

    rebuilds: int = 0
    """Slices whose devices were worked out."""
    evaluations: int = 0
    """Expressions decided for a device."""
    failures: int = 0
    """Of them, those that could not be decided."""


class Report(NamedTuple):
    """One faulty expression of one patch: the text of an event."""

    patch: str
    uid: str
    reason: str
    message: str
    devices: int
    """For which it failed so far."""


class FaultKey(NamedTuple):
    place: str
    reason: str
    text: str


class Fault(msgspec.Struct):
    first: DeviceId
    devices: set[DeviceId] = msgspec.field(default_factory=set)
    told: int = 0
    """Of the devices, how many were there when it was last reported."""
    told_at: float = 0.0
