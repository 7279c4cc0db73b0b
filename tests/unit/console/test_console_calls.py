"""A device's page of the console: calls of its plugin as they happen, and of a recording those of the time."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

from textual.geometry import Size

from protocols.messages.calls import CallRecord
from protocols.messages.devices import HEALTHY, DeviceHealth, ResourceInventory
from protocols.messages.devices import Device as Listed
from supervisor.base.errors import SupervisorError
from supervisor.calls.client import CallBatch
from supervisor.console.model.calls import MAX_CALLS, Calls
from supervisor.console.model.devices import DeviceReplicas
from supervisor.console.screens.device import CALL_LINES, DeviceScreen
from tests.support.waiting import until_async

GPU = "example.com/gpu"


def call(number: int, status: str = "OK", **fields: Any) -> CallRecord:
    return CallRecord(GPU, "Allocate", 10**18 + number, number=number, status=status, seconds=0.01, **fields)


def batch(*records: CallRecord, pending: tuple[CallRecord, ...] = (), restarted: bool = False) -> CallBatch:
    return CallBatch(records, pending, restarted)


def test_calls_are_bounded_newest_first_with_those_in_progress_above() -> None:
    calls = Calls()
    calls.take(batch(*(call(number) for number in range(1, 3 * MAX_CALLS)), pending=(call(999, ""),)), 1.0)
    numbers = [record.number for record in calls.newest_first()]
    assert numbers == [999, *range(3 * MAX_CALLS - 1, 2 * MAX_CALLS - 1, -1)]
    assert len(calls) == MAX_CALLS + 1


def test_calls_before_a_restart_of_the_device_manager_are_gone() -> None:
    calls = Calls()
    calls.take(batch(call(1)), 1.0)
    calls.take(batch(call(2), restarted=True), 2.0)
    assert [record.number for record in calls.newest_first()] == [2]


def test_equal_messages_of_a_stream_are_counted_not_shown_again() -> None:
    calls = Calls()
    first = CallRecord(GPU, "ListAndWatch", 1, number=1, status="OK", incoming=True)
    again = [CallRecord(GPU, "ListAndWatch", n, number=n, status="OK", incoming=True, times=n) for n in range(2, 9)]
    calls.take(batch(first, *again), 1.0)
    assert len(calls) == 1
    calls.take(batch(), 100.0)
    assert [record.times for record in calls.newest_first()] == [8, 1]


class Page(DeviceScreen):
    size = Size(80, 24)


def page(follow: Any) -> Page:
    devices = DeviceReplicas()
    devices.inventory = {GPU: ResourceInventory(GPU, True, (Listed(GPU, "gpu-0"),))}
    devices.health = {f"{GPU} gpu-0": DeviceHealth(GPU, "gpu-0", HEALTHY)}
    host = SimpleNamespace(world=SimpleNamespace(devices=devices), calls_of=follow)
    made: type[Page] = type("Shown", (Page,), {"host": host})
    return made(devices.all()[0])


def text_of(shown: Page) -> list[str]:
    return ["".join(part.text for part in line) for line in shown.lines()]


async def test_page_shows_calls_as_they_happen_and_all_of_them_in_full() -> None:
    more: asyncio.Queue[CallBatch] = asyncio.Queue()

    async def follow(peer: str) -> AsyncIterator[CallBatch]:
        assert peer == GPU
        while True:
            yield await more.get()

    shown = page(follow)
    assert "none yet" in text_of(shown)
    following = asyncio.create_task(shown._follow_calls())
    await more.put(batch(*(call(n, subject=f"default/p{n} main", outcome="x\x1b[2J" + "y" * 200) for n in range(1, 9))))
    await until_async("calls", lambda: len(shown._calls), 5)
    text = text_of(shown)
    at = text.index(f"CALLS of {GPU}  (newest first; c: all 8)")
    assert at < 16, "above the fold of 80 x 24"
    assert "Allocate  default/p8 main  OK" in text[at + 1]
    assert max(map(len, text)) <= 80
    assert not any("\x1b" in line for line in text)
    assert text[at + CALL_LINES + 2].startswith("HEALTH")
    await more.put(batch(pending=(call(9, ""),)))
    await until_async("one in progress", lambda: len(shown._calls) == 9, 5)
    assert "in progress for" in text_of(shown)[at + 1]
    shown.whole = True
    text = text_of(shown)
    assert "default/p1 main" in "".join(text)
    assert "".join(text).replace(" ", "").count("y" * 200) == 8, "folded, nothing is left out"
    following.cancel()


async def test_page_says_why_there_are_no_calls() -> None:
    words = "16 commands follow calls already"

    async def follow(peer: str) -> AsyncIterator[CallBatch]:
        if peer:
            raise SupervisorError(words)
        yield batch()

    shown = page(follow)
    await shown._follow_calls()
    assert words in text_of(shown)
