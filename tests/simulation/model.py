"""What a run of the simulation is given, and what it answers."""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

if TYPE_CHECKING:
    from tests.simulation.world.process import Process

Main = Callable[["Process"], Coroutine[Any, Any, object]]
"""Runs one incarnation of a process: an int that it returns is its exit code."""


class Fault(msgspec.Struct, frozen=True):
    """One fault of a plan."""

    at: float
    """Virtual seconds since the run's begin."""
    kind: str
    target: str
    value: float = 0.0


class Broken(msgspec.Struct, frozen=True):
    """One broken promise."""

    promise: str
    text: str
    at: float = 0.0


class Happening(msgspec.Struct, frozen=True):
    """One entry of the timeline."""

    at: float
    process: str
    text: str


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    profile: str
    seed: int
    seconds: float
    faults: tuple[Fault, ...] | None = None
    """None: drawn from the seed; else exactly these."""
    mutant: str = ""
    trace: bool = False
    """Print every message to stderr."""


class Outcome(msgspec.Struct, kw_only=True):
    """The answer of a run."""

    profile: str
    seed: int
    virtual_s: float
    real_s: float
    load_cpu_s: float = 0.0
    """CPU time of the start and of the seconds with load and faults, without imports."""
    turns: int
    messages: int
    faults: list[Fault]
    broken: list[Broken]
    trace: str
    """SHA-256 over every turn, message and fault."""
    limits: dict[str, float]
    counts: dict[str, int]
    events: list[Happening]


class Profile(Protocol):
    """A set of processes with their load and their promises."""

    processes: dict[str, Main]
    """What runs, by name; those that `supervised` names are started by the supervisor."""
    targets: tuple[str, ...]
    """What faults may hit."""
    kinds: tuple[str, ...]
    """Kinds of faults that may be drawn; keys of `world.faults.KINDS`."""
    means: tuple[float, ...]
    """Seconds between two faults, on average, of which one is drawn."""

    def begin(self) -> None:
        """Start processes and load."""
        ...

    def quiesce(self) -> None:
        """End the load; the world runs on until everything should have converged."""
        ...

    def check(self) -> list[Broken]:
        """Return every broken promise."""
        ...

    def counts(self) -> dict[str, int]:
        """Return figures for the outcome."""
        ...
