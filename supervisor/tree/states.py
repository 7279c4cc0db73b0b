"""The vocabulary of supervision: states, what can happen to a child, and what may be done to it."""

import enum
import os
from pathlib import Path

import msgspec

_TICKS = os.sysconf("SC_CLK_TCK")


class Usage(msgspec.Struct, frozen=True):
    cpu_s: float
    """CPU seconds that all its threads used so far."""
    runnable: bool
    """Its main thread executes, or waits only for a CPU."""


def usage_of(pid: int) -> Usage | None:
    """Return the usage of a process; None if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return Usage((int(fields[11]) + int(fields[12])) / _TICKS, fields[0] == "R")


class State(enum.StrEnum):
    """Where one child stands. WAITING, BACKOFF, STOPPED and FAILED have no process."""

    WAITING = "waiting"
    STARTING = "starting"
    READY = "ready"
    LIVE = "live"
    HUNG = "hung"
    BACKOFF = "backoff"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"


WITH_PROCESS = frozenset({State.STARTING, State.READY, State.LIVE, State.HUNG, State.STOPPING})
SERVING = frozenset({State.READY, State.LIVE})


class Exit(msgspec.Struct, frozen=True):
    """How a process ended: exit code or, if `signal` is not 0, the signal that killed it."""

    code: int = 0
    signal: int = 0
    reason: str = ""

    @property
    def clean(self) -> bool:
        return self.code == 0 and self.signal == 0


class Spawn(msgspec.Struct, frozen=True):
    """Ask the forkserver for a new process of this child."""

    instance: str


class Signal(msgspec.Struct, frozen=True):
    """Send `signal` to the process."""

    instance: str
    pid: int
    signal: int
    why: str


class GiveUp(msgspec.Struct, frozen=True):
    """The child broke its restart budget and stays down; a critical one takes the supervisor with it."""

    instance: str
    reason: str
    critical: bool


Action = Spawn | Signal | GiveUp
