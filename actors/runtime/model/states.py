"""The life of a container, without I/O: created, running, exited, and never back."""

import enum

import msgspec

from actors.runtime.model.errors import WrongState

START_ERROR = 128
LOST = 137
"""Exit code of a container whose end nobody saw: its processes were killed together with their shim."""


class State(enum.Enum):
    CREATED = 0
    RUNNING = 1
    EXITED = 2


class Life(msgspec.Struct, frozen=True):
    """Times in ns, 0 = not yet. The state is derived from them, so it cannot contradict them."""

    created_at: int
    started_at: int = 0
    finished_at: int = 0
    exit_code: int = 0
    reason: str = ""
    message: str = ""

    @property
    def state(self) -> State:
        if self.finished_at:
            return State.EXITED
        return State.RUNNING if self.started_at else State.CREATED


def started(life: Life, at: int) -> Life:
    if life.state is not State.CREATED:
        raise WrongState(f"container is {life.state.name.lower()}, only a created one can be started")
    return msgspec.structs.replace(life, started_at=max(at, life.created_at))


def exited(life: Life, at: int, code: int, starved: bool = False) -> Life:
    """The end of a running container; a second end changes nothing. `starved`: killed for want of memory."""
    if life.state is State.EXITED:
        return life
    if life.state is State.CREATED:
        raise WrongState("container has not been started")
    reason = "OOMKilled" if starved else "Completed" if code == 0 else "Error"
    return _end(life, at, code, reason, "")


def start_failed(life: Life, at: int, message: str) -> Life:
    if life.state is not State.CREATED:
        return life
    return _end(life, at, START_ERROR, "StartError", message)


def lost(life: Life, at: int) -> Life:
    """The end of a container whose shim died without a record."""
    if life.state is State.EXITED:
        return life
    message = "the container's shim was killed, and the container with it; its own exit code is not known"
    return _end(life, at, LOST, "ContainerStatusUnknown", message)


def _end(life: Life, at: int, code: int, reason: str, message: str) -> Life:
    finished = max(at, life.started_at, life.created_at)
    return msgspec.structs.replace(life, finished_at=finished, exit_code=code, reason=reason, message=message)
