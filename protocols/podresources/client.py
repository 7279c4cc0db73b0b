"""The client, with asyncio."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, TypeVar

import grpc.aio

from protocols.messages.devices import PodAllocation
from protocols.podresources.convert import allocatable, machine, pod
from protocols.podresources.session import PodWatchSession
from protocols.podresources.types import Allocatable, AllocatableEvent, NotAnswering, PodEvent, WatchOptions
from protocols.podresources.watch_state import AllocatableState, PodState
from protocols.wire.methods import Method, unix_channel
from protocols.wire.pod_resources import GET, GET_ALLOCATABLE, LIST, LIST_AND_WATCH, LIST_AND_WATCH_ALLOCATABLE

ANSWER_S = 10.0
FAILED = (grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.SHUTDOWN)
DEFAULTS = WatchOptions()
E = TypeVar("E")


class PodResources:
    """Use it with `async with`, or `close` it. Unary calls raise grpc.aio.AioRpcError."""

    def __init__(self, socket: Path | str, timeout: float = ANSWER_S) -> None:
        self._channel = unix_channel(socket)
        self._timeout = timeout
        self._closed = False

    async def __aenter__(self) -> "PodResources":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection; that also ends a watch that another task reads."""
        self._closed = True
        await self._channel.close()

    async def connect(self) -> None:
        """Wait for a connection. Raises NotAnswering if the first attempt fails, or none succeeds in time."""
        try:
            async with asyncio.timeout(self._timeout):
                await self._connected()
        except TimeoutError:
            raise NotAnswering(f"no answer in {self._timeout:g} s") from None

    async def _connected(self) -> None:
        while (state := self._channel.get_state(try_to_connect=True)) is not grpc.ChannelConnectivity.READY:
            if state in FAILED:
                raise NotAnswering("nothing answers there")
            await self._channel.wait_for_state_change(state)

    async def list(self) -> list[PodAllocation]:
        """Return all pods; uids are empty, since List has none."""
        reply = await self._ask(LIST)
        return [pod(shown, "") for shown in reply.pod_resources]

    async def get(self, namespace: str, name: str) -> PodAllocation:
        reply = await self._ask(GET, pod_namespace=namespace, pod_name=name)
        return pod(reply.pod_resources, "")

    async def allocatable(self) -> Allocatable:
        reply = await self._ask(GET_ALLOCATABLE)
        shown = machine(reply)
        return Allocatable(tuple(allocatable(reply).values()), shown.cpus, shown.memory)

    def watch(self, options: WatchOptions = DEFAULTS) -> AsyncIterator[PodEvent]:
        """Yield changes of allocations until `close`. Raises WatchUnsupported or WatchRefused."""
        return self._watch(PodWatchSession[PodEvent](PodState(), options), LIST_AND_WATCH, LIST)

    def watch_allocatable(self, options: WatchOptions = DEFAULTS) -> AsyncIterator[AllocatableEvent]:
        """Yield changes of allocatable resources until `close`. Raises WatchUnsupported or WatchRefused."""
        session = PodWatchSession[AllocatableEvent](AllocatableState(), options)
        return self._watch(session, LIST_AND_WATCH_ALLOCATABLE, GET_ALLOCATABLE)

    async def _watch(
        self, session: PodWatchSession[E], watching: Method[Any, Any], listing: Method[Any, Any]
    ) -> AsyncIterator[E]:
        while not self._closed:
            call = watching.stream(self._channel)(watching.request(), metadata=session.metadata())
            try:
                headers = {str(key): str(value) for key, value in await call.headers() or ()}
                if session.joined(headers, ended=call.done()):
                    for event in session.listed(await self._ask(listing)):
                        yield event
                async for message in call:
                    for event in session.message(message):
                        yield event
                pause = session.ended(await call.code(), await call.details())
            except grpc.aio.AioRpcError as error:
                pause = 0.0 if self._closed else session.ended(error.code(), error.details() or "")
            finally:
                call.cancel()
            await asyncio.sleep(pause)

    async def _ask(self, method: Method[Any, Any], **fields: str) -> Any:
        return await method.unary(self._channel)(method.request(**fields), timeout=self._timeout)
