"""Names of events over restarts of the process that sends them."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from protocols.kube.meta import Object
from protocols.kubeclient.events import EventRecorder, RecorderOptions, _Similar
from tests.support.memory_api import MemoryApi
from tests.support.waiting import until_async


def slice_object(uid: str) -> Object:
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s", "uid": uid}}


async def send(
    api: Any, message: str, *, uid: str = "u", once: bool = True, component: str = "c", times: int = 1
) -> None:
    """Send an event from a process that just started and is killed once it is written."""
    recorder = EventRecorder(api, RecorderOptions(component=component))
    running = asyncio.create_task(recorder.run())
    for _ in range(times):
        recorder.event(slice_object(uid), "Warning", "Less", message, once=once)
    await until_async("written", lambda: recorder._written, every=0.001)
    running.cancel()


def messages(api: MemoryApi) -> list[tuple[str, int]]:
    return sorted((event["message"], event["count"]) for event in api.objects["events"].values())


async def test_event_sent_once_is_not_written_again_after_a_restart() -> None:
    api = MemoryApi()
    for _ in range(3):
        await send(api, "5 now", times=2)
    assert messages(api) == [("5 now", 2)]


async def test_event_sent_once_is_told_from_others_by_object_message_and_component() -> None:
    api = MemoryApi()
    await send(api, "5 now")
    await send(api, "4 now")
    await send(api, "5 now", uid="of a new slice")
    await send(api, "5 now", component="another")
    assert messages(api) == [("4 now", 1), *[("5 now", 1)] * 3]


async def test_other_events_are_written_by_each_process() -> None:
    api = MemoryApi()
    for _ in range(2):
        await send(api, "it runs", once=False)
    assert messages(api) == [("it runs", 1)] * 2


async def test_events_that_differ_in_their_message_share_one_after_nine() -> None:
    """A probe that prints the time left an event for each second in the store."""
    api = MemoryApi()
    recorder = EventRecorder(api, RecorderOptions(component="c"))  # type: ignore[arg-type]  # stands for a client
    running = asyncio.create_task(recorder.run())
    for number in range(20):
        recorder.event(slice_object("u"), "Warning", "Unhealthy", f"probe failed: {number}")
        await until_async("written", lambda: not recorder._waiting, every=0.001)
    recorder.event(slice_object("u"), "Warning", "Other", "by another reason")
    await until_async("the last is written", lambda: len(api.objects["events"]) == 11, every=0.001)
    running.cancel()
    alone = [(f"probe failed: {number}", 1) for number in range(9)]
    assert messages(api) == [("(combined from similar events): probe failed: 19", 11), ("by another reason", 1), *alone]


async def test_events_of_an_object_and_type_have_a_burst_then_one_each_five_minutes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A probe that fails each second was a PATCH each second for ever."""
    api, clock = MemoryApi(), [1000.0]
    monkeypatch.setattr("protocols.kubeclient.events.time", SimpleNamespace(time=lambda: clock[0]))
    recorder = EventRecorder(api, RecorderOptions(component="c"))  # type: ignore[arg-type]  # stands for a client
    running = asyncio.create_task(recorder.run())
    for _ in range(301):
        recorder.event(slice_object("u"), "Warning", "Unhealthy", "probe failed")
        await until_async("written", lambda: not recorder._waiting, every=0.001)
        clock[0] += 1
    recorder.event(slice_object("u"), "Normal", "Pulled", "of another type")
    recorder.event(slice_object("v"), "Warning", "Unhealthy", "of another object")
    recorder.event(slice_object("u"), "Warning", "Flapped", "limited by its caller", limited=True)
    await until_async("the last are written", lambda: len(api.objects["events"]) == 4, every=0.001)
    running.cancel()
    assert api.writes == 26 + 3
    assert ("probe failed", 301) in messages(api)


def test_similar_events_are_told_apart_after_a_pause() -> None:
    similar = _Similar()
    assert [similar.are_many(f"{number}", 0.0) for number in range(11)] == [False] * 9 + [True] * 2
    assert not similar.are_many("9", 1.0), "known"
    assert not similar.are_many("11", 602.0)
