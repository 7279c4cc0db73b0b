"""What a child is, as data: the supervisor never imports an actor, it only knows its module's name."""

import enum

import msgspec


class Restart(enum.StrEnum):
    PERMANENT = "permanent"
    """Started again however it ends."""
    TRANSIENT = "transient"
    """Started again unless it ended with exit code 0."""


class ChildSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One actor instance. `instance` is its name on the bus and of its log file."""

    instance: str
    actor: str
    group: str
    module: str
    restart: Restart = Restart.PERMANENT
    grace_s: float = 7.0
    """Seconds between SIGTERM and SIGKILL; actors have 5 s for an orderly end."""
    critical: bool = True
    """Whether the plane ends when this child cannot be kept up."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Times and budgets of supervision, in seconds. Smaller ones are for tests."""

    start_s: float = 20.0
    """From the start to the first beat. Waiting for others is no fault: a child that beats may stay `starting`."""
    beat_s: float = 5.0
    """Silence after which a child that does not work is hung."""
    busy_s: float = 20.0
    """Silence after which a child that works is hung, too: one turn of its loop takes that long, or for ever."""
    busy_share: float = 0.1
    """Part of a CPU that a silent child must use to count as one that works."""
    stuck_s: float = 4.0
    """How long its beats may say `stuck` before it is hung."""
    abort_s: float = 1.0
    """From SIGABRT (stack dump) to SIGKILL."""
    backoff_s: float = 0.1
    backoff_max_s: float = 30.0
    jitter: float = 0.2
    healthy_s: float = 60.0
    """Ready for this long, a child's earlier crashes are forgiven."""
    start_failures: int = 5
    """Ends before it was ready, one after another."""
    fork_failures: int = 12
    """How often, one after another, the machine may refuse to make its process: about two minutes with the back-off."""
    crashes: int = 30
    crash_period_s: float = 60.0
    ordered_s: float = 10.0
    """How long an ordered signal excuses an end from the budget."""
    late_tick_s: float = 2.0
    """A tick later than this means the supervisor itself was stopped: nobody's silence counts for that time."""
    shutdown_s: float = 25.0
    """Whole shutdown; past it everything left gets SIGKILL."""
