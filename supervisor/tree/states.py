"""Types of the state machine: states of a child, events, actions, and its CPU usage."""

import enum

import msgspec

from protocols.process.proc import STATE, cpu_s, stat_fields


class ChildUsage(msgspec.Struct, frozen=True):
    """CPU of a child: one that waits for a CPU does not hang."""

    cpu_s: float
    """CPU seconds of all its threads."""
    runnable: bool
    """True while its main thread runs or waits for a CPU, and once it has ended and its exit is not reported yet."""
    stopped: bool = False
    """True while a signal such as SIGSTOP holds the process."""


def usage_of(pid: int) -> ChildUsage | None:
    """Return the usage of a process; None if it is gone."""
    fields = stat_fields(pid)
    return ChildUsage(cpu_s(fields), fields[STATE] in b"RZ", fields[STATE] == b"T") if fields else None


class ChildState(enum.StrEnum):
    """State of a child. WAITING, BACKOFF, STOPPED and FAILED have no process."""

    WAITING = "waiting"
    STARTING = "starting"
    READY = "ready"
    LIVE = "live"
    HUNG = "hung"
    BACKOFF = "backoff"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"


WITH_PROCESS = frozenset({ChildState.STARTING, ChildState.READY, ChildState.LIVE, ChildState.HUNG, ChildState.STOPPING})
SERVING = frozenset({ChildState.READY, ChildState.LIVE})


class ProcessExit(msgspec.Struct, frozen=True):
    """End of a process: its exit code or, if `signal` is not 0, the signal that killed it."""

    code: int = 0
    signal: int = 0
    reason: str = ""

    @property
    def clean(self) -> bool:
        return self.code == 0 and self.signal == 0


class Spawn(msgspec.Struct, frozen=True):
    """Fork a process for this child."""

    instance: str


class Signal(msgspec.Struct, frozen=True):
    """Send a signal to the process."""

    instance: str
    pid: int
    signal: int
    why: str


class GiveUp(msgspec.Struct, frozen=True):
    """The child exceeded its restart budget and stays down; if it is critical, the supervisor ends."""

    instance: str
    reason: str
    critical: bool


Action = Spawn | Signal | GiveUp
