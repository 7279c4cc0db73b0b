"""The one place where a container's life moves on: drivers report here, waiters and subscribers hear from here."""

import asyncio

import msgspec

from actors.runtime.model import states
from actors.runtime.model.states import Life, State
from actors.runtime.model.types import Container
from actors.runtime.state.container_events import Events
from protocols.wire import cri_pb2 as pb


class Lifecycle:
    """Every method is one step of the loop: life, then event, then waiters. STARTED always precedes STOPPED."""

    def __init__(self, events: Events) -> None:
        self._events = events

    def started(self, container: Container, at: int) -> None:
        if container.life.state is State.CREATED:
            self._move(container, states.started(container.life, at))
            self._events.emit(pb.CONTAINER_STARTED_EVENT, container.id, container.sandbox)

    def exited(self, container: Container, at: int, code: int, starved: bool = False) -> None:
        if container.life.state is State.RUNNING:
            self._end(container, states.exited(container.life, at, code, starved))

    def start_failed(self, container: Container, at: int, message: str) -> None:
        if container.life.state is State.CREATED:
            self._end(container, states.start_failed(container.life, at, message))

    def lost(self, container: Container, at: int) -> None:
        if container.life.state is not State.EXITED:
            self._end(container, states.lost(container.life, at))

    def _end(self, container: Container, life: Life) -> None:
        self._move(container, life)
        self._events.emit(pb.CONTAINER_STOPPED_EVENT, container.id, container.sandbox)
        if container.ended is not None:
            container.ended.set()

    @staticmethod
    def _move(container: Container, life: Life) -> None:
        container.record = msgspec.structs.replace(container.record, life=life)


async def wait_ended(container: Container, timeout: float | None) -> bool:
    """Whether the container has ended within `timeout` seconds."""
    if container.life.state is State.EXITED:
        return True
    if container.ended is None:
        container.ended = asyncio.Event()
    try:
        async with asyncio.timeout(timeout):
            await container.ended.wait()
    except TimeoutError:
        return False
    return True
