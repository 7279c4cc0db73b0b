"""A node agent as a test sees it: lists, watches, and folds events into a picture."""

import asyncio
from collections.abc import Sequence
from typing import Any

import grpc.aio

from protocols.wire import podresources_v1_pb2 as v1
from protocols.wire.methods import unix_channel
from protocols.wire.pod_resources import (
    GET,
    GET_ALLOCATABLE,
    LIST,
    LIST_AND_WATCH,
    LIST_AND_WATCH_ALLOCATABLE,
    REVISION,
)

PodEvent = v1.ListAndWatchPodResourcesResponse


class Agent:
    def __init__(self, socket: Any) -> None:
        self.channel = unix_channel(socket)

    async def list_all(self) -> list[v1.PodResources]:
        return list((await LIST.unary(self.channel)(v1.ListPodResourcesRequest(), timeout=20)).pod_resources)

    async def list_at(self) -> tuple[list[v1.PodResources], str]:
        """List and the revision it shows."""
        call = LIST.unary(self.channel)(v1.ListPodResourcesRequest(), timeout=20)
        headers = dict(await call.initial_metadata())
        return list((await call).pod_resources), str(headers[REVISION])

    async def get(self, name: str, namespace: str = "default") -> v1.PodResources:
        request = v1.GetPodResourcesRequest(pod_name=name, pod_namespace=namespace)
        return (await GET.unary(self.channel)(request, timeout=20)).pod_resources

    async def allocatable(self) -> list[str]:
        return ids((await self.machine()).devices)

    async def machine(self) -> v1.AllocatableResourcesResponse:
        return await GET_ALLOCATABLE.unary(self.channel)(v1.AllocatableResourcesRequest(), timeout=20)

    async def watch(self, *metadata: tuple[str, str]) -> "PodWatch":
        call = LIST_AND_WATCH.stream(self.channel)(v1.ListAndWatchPodResourcesRequest(), metadata=metadata)
        return PodWatch(call, await headers_of(call))

    async def watch_allocatable(self, *metadata: tuple[str, str]) -> "PodWatch":
        call = LIST_AND_WATCH_ALLOCATABLE.stream(self.channel)(
            v1.ListAndWatchAllocatableResourcesRequest(), metadata=metadata
        )
        return PodWatch(call, await headers_of(call))

    async def close(self) -> None:
        await self.channel.close()


async def headers_of(call: Any) -> dict[str, str]:
    """Sent at once by a server that accepts the watch; raises the call's error otherwise."""
    headers = dict(await asyncio.wait_for(call.initial_metadata(), 60))
    if not headers:
        await call.read()
    return headers


class PodWatch:
    """One open stream. `pods` is the fold of what came, by uid; `names` of all events in order."""

    def __init__(self, call: Any, headers: dict[str, str]) -> None:
        self.call, self.headers = call, headers
        self.seen: list[Any] = []

    async def next(self, timeout: float = 60.0) -> Any:
        event = await asyncio.wait_for(self.call.read(), timeout)
        if event is grpc.aio.EOF:
            raise EOFError(await self.call.code())
        self.seen.append(event)
        return event

    async def take(self, count: int) -> list[Any]:
        return [await self.next() for _ in range(count)]

    async def quiet(self, seconds: float = 0.3) -> bool:
        """Whether nothing comes; ends the watch."""
        try:
            await self.next(seconds)
        except TimeoutError:
            return True
        return False


def ids(devices: Any) -> list[str]:
    return [id for item in devices for id in item.device_ids]


def fold(start: Sequence[v1.PodResources], events: Sequence[PodEvent]) -> dict[tuple[str, str], bytes]:
    """What an agent believes: pods by namespace and name after List and events. DELETED of the unknown is ignored."""
    view = {(pod.namespace, pod.name): pod.SerializeToString(deterministic=True) for pod in start}
    for event in events:
        for pod in event.pod_resources:
            if event.action == PodEvent.DELETED:
                view.pop((pod.namespace, pod.name), None)
            else:
                view[pod.namespace, pod.name] = pod.SerializeToString(deterministic=True)
    return view
