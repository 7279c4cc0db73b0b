"""Faulty expressions, counted per patch and kind of fault: one event each, whatever the number of devices."""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from protocols.dra.patching.criteria import Faulty, Selector
from protocols.dra.types import DeviceId, Patch, Slice


class SliceChange(NamedTuple):
    """One changed slice, patched. Reported after the cache has it."""

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
    """Evaluations that failed."""


class PatchFaultReport(NamedTuple):
    """One faulty expression of one patch: the text of an event."""

    patch: str
    uid: str
    reason: str
    message: str
    devices: int
    """Number of devices for which it has failed."""


class _FaultKey(NamedTuple):
    place: str
    reason: str
    text: str


class _PatchFault(msgspec.Struct):
    first: DeviceId
    devices: set[DeviceId] = msgspec.field(default_factory=set)
    reported: int = 0
    """Number of devices when it was last reported."""
    reported_at: float = 0.0


AGAIN = 300.0
"""Seconds until a fault that met more devices is reported again."""
KINDS = 64
"""Most faults per patch: it has 32 selectors and a class, and texts differ by device."""
TEXT = 512
DEVICES = 1000
"""Most devices counted per fault; a larger number is reported as `at least` this."""


class PatchFaults:
    """Faults of patches until they are reported; bounded by KINDS for each patch and DEVICES for each kind."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Patch, dict[_FaultKey, _PatchFault]]] = {}
        """By the patch's name; of one version of it."""
        self._fresh: dict[str, None] = {}
        """Patches that may have faults to report."""

    def add(self, patch: Patch, selector: Selector, faulty: Faulty, device: DeviceId) -> None:
        _, faults = self._known.setdefault(patch.name, (patch, {}))
        key = _FaultKey(selector.place, faulty.reason, faulty.text[:TEXT])
        fault = faults.get(key)
        if fault is None:
            if len(faults) >= KINDS:
                return
            fault = faults[key] = _PatchFault(device)
        if len(fault.devices) < DEVICES and device not in fault.devices:
            fault.devices.add(device)
            self._fresh[patch.name] = None

    def forget(self, patch: str) -> None:
        """Drop the faults of a patch that changed or was deleted, so that new ones are reported at once."""
        self._known.pop(patch, None)
        self._fresh.pop(patch, None)

    def due(self, now: float) -> list[PatchFaultReport]:
        """Return faults to report now: new ones at once, those that met more devices AGAIN seconds after the last."""
        reports = []
        for name in list(self._fresh):
            patch, faults = self._known[name]
            waiting = False
            for key, fault in faults.items():
                if len(fault.devices) == fault.reported:
                    continue
                if fault.reported and now - fault.reported_at < AGAIN:
                    waiting = True
                    continue
                fault.reported, fault.reported_at = len(fault.devices), now
                reports.append(_report(patch, key, fault))
            if not waiting:
                del self._fresh[name]
        return reports

    def reports(self) -> Iterator[PatchFaultReport]:
        """Return all faults."""
        for patch, faults in self._known.values():
            for key, fault in faults.items():
                yield _report(patch, key, fault)


def _report(patch: Patch, key: _FaultKey, fault: _PatchFault) -> PatchFaultReport:
    more = len(fault.devices) - 1
    least = "at least " if len(fault.devices) == DEVICES else ""
    others = f" (and {least}{more} more device{'s' if more > 1 else ''})" if more else ""
    message = f"{key.place}: {key.text}: device {fault.first}{others}"
    return PatchFaultReport(patch.name, patch.uid, key.reason, message, len(fault.devices))
