"""Build the patched devices of one slice."""

from collections.abc import Sequence
from operator import is_

import msgspec

from protocols.dra.patching.criteria import Faulty, Selector, judge
from protocols.dra.patching.layers import Layers, PoolLayers
from protocols.dra.patching.types import NO_EFFECT, Known, patched
from protocols.dra.tracker.faults import Counts, PatchFaults
from protocols.dra.tracker.inputs import Inputs
from protocols.dra.types import Device, DeviceId, Slice

NO, YES, FAULTY = 1, 2, 3
"""0 = not evaluated. The reason of a faulty one is not stored; it is evaluated again for a report."""


class Verdicts:
    """Results of CEL expressions about a slice's devices, by expression and the device's place; 0 = not evaluated."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._known: dict[str, bytearray] = {}

    def get(self, expression: str, at: int) -> int:
        known = self._known.get(expression)
        return known[at] if known else 0

    def put(self, expression: str, at: int, verdict: int) -> None:
        known = self._known.get(expression)
        if known is None:
            known = self._known[expression] = bytearray(self._size)
        known[at] = verdict

    def drop(self, expression: str) -> None:
        self._known.pop(expression, None)

    def moved(self, origins: list[int]) -> "Verdicts":
        """Return the verdicts of a slice whose device at each place was at `origins` before (-1 = new)."""
        verdicts = Verdicts(len(origins))
        for expression, known in self._known.items():
            verdicts._known[expression] = bytearray(known[origin] if origin >= 0 else 0 for origin in origins)
        return verdicts


UNTOUCHED = (NO_EFFECT, ())


class Builder(msgspec.Struct, frozen=True):
    """Applies patches and rules to slices; what nothing changes stays the same object."""

    inputs: Inputs
    layers: PoolLayers
    faults: PatchFaults
    counts: Counts
    ended: set[str] = msgspec.field(default_factory=set)
    """Slices with devices for which an evaluation was ended."""

    def devices(
        self, each: Slice, old: tuple[Device, ...], only: set[str] | None, verdicts: Verdicts
    ) -> tuple[Device, ...]:
        """Return the slice's devices as patched: those in `only` are computed, or all; others stay as in `old`.

        A device that did not change is the same object as in `old`; a slice that nothing patches has its published
        devices.
        """
        self.counts.rebuilds += 1
        layers = self.layers.of(each.driver, each.pool)
        alike = layers.uniform()
        if alike == UNTOUCHED:
            return each.devices
        if alike is not None:
            rebuilt = [patched(device, *alike) for device in each.devices]
        else:
            rebuilt = self._one_by_one(layers, each, old, only, verdicts)
        for at, (new, before) in enumerate(zip(rebuilt, _in_places(each.devices, old), strict=False)):
            if new is not before and new is not each.devices[at] and before is not None and new == before:
                rebuilt[at] = before
        return each.devices if all(map(is_, rebuilt, each.devices)) else tuple(rebuilt)

    def _one_by_one(
        self, layers: Layers, each: Slice, old: tuple[Device, ...], only: set[str] | None, verdicts: Verdicts
    ) -> list[Device]:
        if only is None:
            return [self._device(layers, each, at, verdicts) for at in range(len(each.devices))]
        return [
            self._device(layers, each, at, verdicts) if device.name in only else old[at]
            for at, device in enumerate(each.devices)
        ]

    def _device(self, layers: Layers, each: Slice, at: int, verdicts: Verdicts) -> Device:
        device = each.devices[at]
        more = [known for known in layers.conditional if self.applies(known, each, at, verdicts)]
        for known in layers.of_device(device.name):
            if not known.is_conditional or self.applies(known, each, at, verdicts):
                more.append(known)
        return patched(device, layers.effect(more), layers.taints(device.name))

    def applies(self, known: Known, each: Slice, at: int, verdicts: Verdicts) -> bool:
        """Return True when a patch whose names match applies to the device at this place."""
        selectors = self.inputs.selectors(known)
        if selectors is None:
            return False
        for selector in selectors:
            verdict = verdicts.get(selector.expression, at)
            if verdict not in (YES, NO):
                verdict = self._judge(known, selector, each, at)
                verdicts.put(selector.expression, at, verdict)
            if verdict != YES:
                return False
        return True

    def _judge(self, known: Known, selector: Selector, each: Slice, at: int) -> int:
        device = each.devices[at]
        verdict = judge(each.driver, selector.expression, device)
        self.counts.evaluations += 1
        if isinstance(verdict, Faulty):
            self.counts.failures += 1
            if verdict.ended:
                self.ended.add(each.name)
            self.faults.add(known.patch, selector, verdict, DeviceId(each.driver, each.pool, device.name))
            return FAULTY
        return YES if verdict else NO


def _in_places(devices: tuple[Device, ...], old: tuple[Device, ...]) -> Sequence[Device | None]:
    """Return the old devices in the order of the new devices of the same names."""
    if all(one.name == other.name for one, other in zip(devices, old, strict=False)):
        return old
    known = {device.name: device for device in old}
    return [known.get(device.name) for device in devices]
