"""Lifecycle of a container: created, running, exited, never back. Backends report here; waiters and events follow."""

import asyncio

import msgspec

from actors.runtime.model.containers import Container, ContainerState, Life
from actors.runtime.model.errors import WrongState
from actors.runtime.state.container_events import ContainerEvents
from protocols.process.tasks import wait_set
from protocols.wire import cri_pb2 as pb

START_ERROR = 128
LOST = 137
"""Exit code of a container that was killed together with its shim, so that no exit was recorded."""


def started(life: Life, at: int) -> Life:
    """Return the life of a container that runs since `at` (ns). Raises WrongState."""
    if life.state is not ContainerState.CREATED:
        raise WrongState(f"container is {life.state.name.lower()}, only a created one can be started")
    return msgspec.structs.replace(life, started_at=max(at, life.created_at))


def exited(life: Life, at: int, code: int, oom_killed: bool = False) -> Life:
    """Return the life after the end of a running container; a second end changes nothing."""
    if life.state is ContainerState.EXITED:
        return life
    if life.state is ContainerState.CREATED:
        raise WrongState("container has not been started")
    reason = "OOMKilled" if oom_killed else "Completed" if code == 0 else "Error"
    return _end(life, at, code, reason, "")


def start_failed(life: Life, at: int, message: str) -> Life:
    """Return the life of a container that ended before its process ran; one that was started is unchanged."""
    if life.state is not ContainerState.CREATED:
        return life
    return _end(life, at, START_ERROR, "StartError", message)


def lost(life: Life, at: int) -> Life:
    """Return the life of a container whose shim died without an exit record."""
    if life.state is ContainerState.EXITED:
        return life
    message = "the container's shim was killed, and the container with it; its own exit code is not known"
    return _end(life, at, LOST, "ContainerStatusUnknown", message)


def _end(life: Life, at: int, code: int, reason: str, message: str) -> Life:
    finished = max(at, life.started_at, life.created_at)
    return msgspec.structs.replace(life, finished_at=finished, exit_code=code, reason=reason, message=message)


class Lifecycle:
    """Apply transitions, each in one step of the loop: life, then event, then waiters. STARTED precedes STOPPED."""

    def __init__(self, events: ContainerEvents) -> None:
        self._events = events

    def started(self, container: Container, at: int) -> None:
        if container.life.state is ContainerState.CREATED:
            self._move(container, started(container.life, at))
            self._events.emit(pb.CONTAINER_STARTED_EVENT, container.id, container.sandbox)

    def exited(self, container: Container, at: int, code: int, oom_killed: bool = False) -> None:
        if container.life.state is ContainerState.RUNNING:
            self._end(container, exited(container.life, at, code, oom_killed))

    def start_failed(self, container: Container, at: int, message: str) -> None:
        if container.life.state is ContainerState.CREATED:
            self._end(container, start_failed(container.life, at, message))

    def lost(self, container: Container, at: int) -> None:
        if container.life.state is not ContainerState.EXITED:
            self._end(container, lost(container.life, at))

    def _end(self, container: Container, life: Life) -> None:
        self._move(container, life)
        self._events.emit(pb.CONTAINER_STOPPED_EVENT, container.id, container.sandbox)
        if container.ended is not None:
            container.ended.set()

    @staticmethod
    def _move(container: Container, life: Life) -> None:
        container.record = msgspec.structs.replace(container.record, life=life)


async def wait_ended(container: Container, timeout: float | None) -> bool:
    """Wait for the end of a container; False after `timeout` seconds."""
    if container.life.state is ContainerState.EXITED:
        return True
    if container.ended is None:
        container.ended = asyncio.Event()
    return await wait_set(container.ended, timeout)
