"""A tracker of patched slices that follows the API: the one part of this package with a client.

Scheduler and controllers each have such a cache, so that both see the same devices.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from protocols.cel.worker import selections
from protocols.cel.worker.client import WorkerAway
from protocols.dra.decode import class_of, patch_of, rule_of, slice_reader
from protocols.dra.gates import Gates
from protocols.dra.tracker.faults import SliceChange
from protocols.dra.tracker.tracker import Tracker
from protocols.dra.types import Device, DeviceClass, ObjectUnreadable
from protocols.kinds.table import DEVICECLASSES, DEVICETAINTRULES, RESOURCESLICEPATCHES, RESOURCESLICES
from protocols.kube.meta import Object, name_of
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.events import EventRecorder
from protocols.kubeclient.informer import Informer, InformerOptions, ResourceEventHandler
from protocols.process.tasks import wait_set

STRIDE, STRIDE_S = 64, 0.02
"""Slices worked out between two turns of the event loop, and seconds: selectors cost by the device."""
AGAIN_S = 60.0
"""Interval of checks for faults that met more devices, and of new evaluations where one was ended."""
T = TypeVar("T")


class SliceListener(Protocol):
    """Notified after the cache has the change."""

    def slices_changed(self, changes: list[SliceChange]) -> None: ...
    def classes_changed(self) -> None: ...


class SliceTracker:
    """`informers` are to be run by the owner, and run() with them."""

    def __init__(
        self, client: ApiClient, gates: Gates, listener: SliceListener, log: logging.Logger,
        recorder: EventRecorder | None = None, rules: ResourceEventHandler | None = None,
    ) -> None:  # fmt: skip
        """Create the informers.

        `recorder` reports patches with faulty selectors; one process should do that. `rules` receives DeviceTaintRules,
        which then do not change the slices.
        """
        self.tracker = Tracker(gates)
        self._listener, self._log, self._recorder = listener, log, recorder
        self._wake = asyncio.Event()
        self._needed = asyncio.Event()
        """Slices wait for selectors."""
        self._settled = asyncio.Event()
        self._settled.set()
        tracker = self.tracker
        slices = _Handler(self, slice_reader(gates), tracker.put_slice, tracker.drop_slice)
        patches = _Handler(self, patch_of, tracker.put_patch, tracker.drop_patch)
        rules = rules or _Handler(self, rule_of, tracker.put_rule, tracker.drop_rule)
        classes = _Handler(self, class_of, tracker.put_class, tracker.drop_class, listener.classes_changed)
        self._slices = Informer(client, RESOURCESLICES, InformerOptions(), slices)
        self._classes = Informer(client, DEVICECLASSES, InformerOptions(), classes)
        optional = InformerOptions(optional=True)
        self._patches = Informer(client, RESOURCESLICEPATCHES, optional, patches)
        self._rules = Informer(client, DEVICETAINTRULES, optional, rules)
        self.informers = [self._slices, self._classes, self._patches, self._rules]

    @property
    def classes(self) -> Mapping[str, DeviceClass]:
        return self.tracker.inputs.classes

    async def wait_synced(self, timeout: float) -> None:
        """Wait until everything is listed and all slices are rebuilt. Raises TimeoutError.

        Resources that the API does not serve are skipped.
        """
        async with asyncio.timeout(timeout):
            for informer in self.informers:
                await informer.wait_known()
            await self._settled.wait()

    def touched(self) -> None:
        self._settled.clear()
        self._wake.set()

    def unreadable(self, why: ObjectUnreadable) -> None:
        self._log.warning("%s", why)

    async def run(self) -> None:
        """Rebuild changed slices and notify the listener; faults of patches become events on them."""
        await asyncio.gather(self._rebuild(), self._evaluate())

    async def _rebuild(self) -> None:
        again = time.monotonic() + AGAIN_S
        while True:
            await wait_set(self._wake, again - time.monotonic())
            self._wake.clear()
            if time.monotonic() >= again:
                again = time.monotonic() + AGAIN_S
                self.tracker.judge_ended_again()
            await self._settle()
            if not self._wake.is_set():
                self._settled.set()
            self._report_faults()

    async def _settle(self) -> None:
        """Rebuild all marked slices; wait where each of them needs a selector that is not evaluated yet."""
        while not self.tracker.is_settled:
            end = time.monotonic() + STRIDE_S
            if changes := self.tracker.settle(STRIDE, lambda end=end: time.monotonic() > end):  # type: ignore[misc]  # bound at once
                self._listener.slices_changed(changes)
            if self.tracker.pending:
                self._needed.set()
            if self.tracker.is_held:
                await self._wake.wait()
                self._wake.clear()
            else:
                await asyncio.sleep(0)

    async def _evaluate(self) -> None:
        """Have the selectors evaluated that slices wait for, while others are rebuilt."""
        while True:
            await self._needed.wait()
            self._needed.clear()
            pending, self.tracker.pending = self.tracker.pending, {}
            for expression, names in pending.items():
                await self._evaluate_for(expression, names)
                self.tracker.release(names)
                self.touched()

    async def _evaluate_for(self, expression: str, names: set[str]) -> None:
        devices: dict[str, list[Device]] = {}
        for published in filter(None, map(self.tracker.published.get, names)):
            devices.setdefault(published.driver, []).extend(published.devices)
        try:
            await selections.find([expression], devices)
        except WorkerAway as error:
            self._log.warning("selectors of patches wait: %s", error)

    def _report_faults(self) -> None:
        for report in self.tracker.faults.due(time.monotonic()) if self._recorder else ():
            patch = self._patches.items.get(report.patch)
            if patch is not None and self._recorder is not None:
                self._recorder.event(patch, "Warning", report.reason, report.message)


class _Handler(ResourceEventHandler):
    """Passes objects of one informer to the tracker. An unreadable object counts as absent."""

    def __init__(
        self, feed: SliceTracker, read: Callable[[Object], T], put: Callable[[T], Any], drop: Callable[[str], Any],
        after: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        self._feed, self._read, self._put, self._drop, self._after = feed, read, put, drop, after

    def on_add(self, obj: Object) -> None:
        try:
            self._put(self._read(obj))
        except ObjectUnreadable as why:
            self._feed.unreadable(why)
            self._drop(name_of(obj))
        self._done()

    def on_delete(self, obj: Object) -> None:
        self._drop(name_of(obj))
        self._done()

    def _done(self) -> None:
        self._feed.touched()
        if self._after is not None:
            self._after()
