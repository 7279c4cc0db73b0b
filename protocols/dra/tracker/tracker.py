"""Slices as patches leave them.

Inputs only mark what they touch; `settle` rebuilds marked slices and returns the changes. So a storm of patches costs
each slice one rebuild, a long one can be done in steps, and a change is in the cache when it is reported. In the end
the cache holds what a computation from scratch would give, whatever the order of the inputs.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from itertools import islice
from operator import is_

from protocols.cel.worker.selections import SelectorPending
from protocols.dra.gates import Gates
from protocols.dra.patching.layers import PoolLayers
from protocols.dra.tracker.builder import Builder, Verdicts
from protocols.dra.tracker.faults import Counts, PatchFaults, SliceChange
from protocols.dra.tracker.inputs import Inputs, Places, Touched
from protocols.dra.types import Device, DeviceClass, Patch, Slice, TaintRule

BOTH = Gates()


class Tracker:
    """Not safe for threads: one task feeds and settles it. The result of `slices` may be read anywhere."""

    def __init__(self, gates: Gates = BOTH) -> None:
        self.counts = Counts()
        self.faults = PatchFaults()
        self.inputs = Inputs(gates)
        layers = PoolLayers(self.inputs.patch_index, self.inputs.rule_index, gates)
        self.builder = Builder(self.inputs, layers, self.faults, self.counts)
        self.published: dict[str, Slice] = {}
        self.verdicts: dict[str, Verdicts] = {}
        self._layers = layers
        self._patched: dict[str, Slice] = {}
        self._names: list[str] = []
        """Names of the patched slices, sorted."""
        self._snapshot: tuple[Slice, ...] | None = ()
        self._places = Places()
        self._marks: dict[str, set[str] | None] = {}
        """Devices to rebuild by slice; None = all."""
        self._arrived: set[str] = set()
        """Slices put since the last `settle`: they are reported even if they are equal."""
        self._changes: list[SliceChange] = []
        self.pending: dict[str, set[str]] = {}
        """Selectors to evaluate, with their slices. The evaluator clears it, and then calls `release`."""
        self._held: set[str] = set()
        """Marked slices that wait for selectors; `settle` passes over them until `release`, or another change."""

    def put_slice(self, new: Slice) -> None:
        old = self.published.get(new.name)
        if old is None:
            self.verdicts[new.name] = Verdicts(len(new.devices))
        else:
            new = self._kept(old, new)
            self._places.remove(old)
        self.published[new.name] = new
        self._places.add(new)
        self._marks[new.name] = None
        self._held.discard(new.name)
        self._arrived.add(new.name)

    def drop_slice(self, name: str) -> None:
        old = self.published.pop(name, None)
        if old is None:
            return
        self._places.remove(old)
        del self.verdicts[name]
        self._marks.pop(name, None)
        self._held.discard(name)
        self._arrived.discard(name)
        self._layers.forget(old.driver, old.pool)
        patched = self._patched.pop(name, None)
        if patched is not None:
            del self._names[bisect_left(self._names, name)]
            self._snapshot = None
            self._changes.append(SliceChange(patched, None))

    def put_patch(self, patch: Patch) -> None:
        touched = self.inputs.put_patch(patch)
        if touched:
            self.faults.forget(patch.name)
        self._touch(touched)

    def drop_patch(self, name: str) -> None:
        self._touch(self.inputs.drop_patch(name))
        self.faults.forget(name)

    def put_rule(self, rule: TaintRule) -> None:
        self._touch(self.inputs.put_rule(rule))

    def drop_rule(self, name: str) -> None:
        self._touch(self.inputs.drop_rule(name))

    def put_class(self, new: DeviceClass) -> None:
        self._touch(self.inputs.put_class(new))

    def drop_class(self, name: str) -> None:
        self._touch(self.inputs.drop_class(name))

    def judge_ended_again(self) -> None:
        """Mark slices for which the evaluation of a selector was ended; call it now and then."""
        self._marks |= dict.fromkeys(self.builder.ended & self.published.keys())
        self.builder.ended.clear()

    @property
    def is_settled(self) -> bool:
        return not self._marks and not self._changes

    @property
    def is_held(self) -> bool:
        """True while there is nothing to do but to evaluate selectors."""
        return bool(self._marks) and not self._changes and self._marks.keys() <= self._held

    def release(self, names: Iterable[str]) -> None:
        """Let slices be rebuilt whose selectors were evaluated."""
        self._held.difference_update(names)

    def settle(self, limit: int | None = None, enough: Callable[[], bool] | None = None) -> list[SliceChange]:
        """Rebuild marked slices and return the changes; call it until `settled`.

        Slices that need selectors which were not evaluated yet stay marked; they are in `pending`, and left out until
        `release`.

        Stops after `limit` slices, or after a slice when `enough` returns True.
        """
        for name in list(islice((name for name in self._marks if name not in self._held), limit)):
            only = self._marks.pop(name)
            try:
                self._rebuild(name, only)
            except SelectorPending as needed:
                self._marks[name] = only
                self._held.add(name)
                self.pending.setdefault(needed.expression, set()).add(name)
            if enough is not None and enough():
                break
        changes, self._changes = self._changes, []
        return changes

    def slices(self) -> tuple[Slice, ...]:
        """Return all slices, ordered by name, patched as of the last `settle`; the same tuple until a slice changes."""
        if self._snapshot is None:
            self._snapshot = tuple([self._patched[name] for name in self._names])
        return self._snapshot

    def get(self, name: str) -> Slice | None:
        """Return a slice as patched."""
        return self._patched.get(name)

    def _touch(self, touched: Touched) -> None:
        for filter in touched:
            for name in self._places.of(filter, self.published):
                self._held.discard(name)
                devices = self._marks.get(name, set())
                if filter.device is None or devices is None:
                    self._marks[name] = None
                else:
                    devices.add(filter.device)
                    self._marks[name] = devices
        for expression in self.inputs.unused():
            for verdicts in self.verdicts.values():
                verdicts.drop(expression)

    def _kept(self, old: Slice, new: Slice) -> Slice:
        """Return the new slice with unchanged devices as the same objects, and move their verdicts."""
        places = {device.name: at for at, device in enumerate(old.devices)}
        devices, origins = [], []
        for device in new.devices:
            at = places.get(device.name, -1)
            same = at >= 0 and old.devices[at] == device
            devices.append(old.devices[at] if same else device)
            origins.append(at if same and old.driver == new.driver else -1)
        self.verdicts[new.name] = self.verdicts[new.name].moved(origins)
        return _with(new, tuple(devices))

    def _rebuild(self, name: str, only: set[str] | None) -> None:
        published, old = self.published[name], self._patched.get(name)
        devices = self.builder.devices(published, old.devices if old else (), only, self.verdicts[name])
        new = published if devices is published.devices else _with(published, devices)
        arrived = name in self._arrived
        self._arrived.discard(name)
        if old is not None and not arrived and _is_same(old.devices, devices):
            return
        if old is None:
            insort(self._names, name)
        self._patched[name] = new
        self._snapshot = None
        self._changes.append(SliceChange(old, new))


def _with(each: Slice, devices: tuple[Device, ...]) -> Slice:
    return Slice(
        each.name,
        each.uid,
        each.driver,
        each.pool,
        each.generation,
        each.count,
        each.reach,
        devices,
        each.counters,
    )


def _is_same(one: tuple[Device, ...], other: tuple[Device, ...]) -> bool:
    return len(one) == len(other) and all(map(is_, one, other))
