"""Names of events over restarts of the process that sends them."""

import asyncio
from typing import Any

from protocols.kube.meta import Object
from protocols.kubeclient.events import EventRecorder, RecorderOptions
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
