"""The tracker that follows the API: slices that wait for the worker of CEL, and those that need not."""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import pytest

from protocols.cel.worker import selections
from protocols.cel.worker.client import WorkerAway
from protocols.dra.gates import Gates
from protocols.dra.tracker.faults import SliceChange
from protocols.dra.tracker.feed import SliceTracker
from protocols.dra.types import Device
from protocols.kubeclient.client import ApiClient
from protocols.process.tasks import awaited, cancel
from tests.support.dra_objects import a_patch, a_slice, device
from tests.support.waiting import until_true

KEY = "a.example.com/k"


class Seen:
    """A listener: the names of the slices that are there."""

    def __init__(self) -> None:
        self.names = set[str]()

    def slices_changed(self, changes: list[SliceChange]) -> None:
        for old, new in changes:
            self.names.discard(old.name if old is not None else "")
            self.names |= {new.name} if new is not None else set()

    def classes_changed(self) -> None:
        """No class is used."""


class SlowWorker:
    """Knows a selector for a device once `answers` is set and it was asked."""

    def __init__(self) -> None:
        self.answers = asyncio.Event()
        self.known, self.asked = set[str](), 0

    def result(self, expression: str, driver: str, found: Device) -> bool:
        if found.name not in self.known:
            raise selections.SelectorPending(expression, driver, found)
        return True

    async def find(self, expressions: Iterable[str], devices: Mapping[str, Sequence[Device]]) -> None:
        self.asked += 1
        if self.asked == 1:
            raise WorkerAway("stopped")
        await self.answers.wait()
        self.known |= {found.name for members in devices.values() for found in members}


async def test_slices_that_need_no_selector_do_not_wait_for_those_that_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the worker was stopped, new devices and gone ones were not seen for 30 s."""
    worker, seen = SlowWorker(), Seen()
    monkeypatch.setattr(selections, "find", worker.find)
    feed = SliceTracker(cast("ApiClient", None), Gates(), seen, logging.getLogger("test"))
    tracker: Any = feed.tracker
    patch = a_patch("p", {KEY: 1}, driver="a.example.com", selectors=["device.driver != ''"])
    with selections.evaluated_by(worker):
        running = awaited(feed.run())
        tracker.put_patch(patch)
        tracker.put_slice(a_slice("waits", device("x"), driver="a.example.com"))
        feed.touched()
        await until_true(lambda: worker.asked == 2)
        tracker.put_slice(a_slice("new", device("y"), driver="b.example.com"))
        feed.touched()
        await until_true(lambda: seen.names == {"new"})
        tracker.drop_slice("new")
        feed.touched()
        await until_true(lambda: not seen.names)
        assert not feed._settled.is_set()
        tracker.drop_patch("p")
        feed.touched()
        await until_true(lambda: seen.names == {"waits"})
        tracker.put_patch(patch)
        feed.touched()
        await until_true(lambda: worker.asked >= 2 and not feed._settled.is_set())
        worker.answers.set()
        await asyncio.wait_for(feed._settled.wait(), 60)
        assert seen.names == {"waits"}
        assert KEY in tracker.get("waits").devices[0].attributes
        await cancel(running)
