"""Which actors make a plane: three groups, in the order they start (they stop in reverse)."""

import enum

import msgspec

from supervisor.base.errors import Usage


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


CONTROL, WATCHER, NODE = "control", "watcher", "node"
ADOPT = "adopt"
"""Alone, beside a real kubelet: no group of a plane."""
GROUPS = (CONTROL, WATCHER, NODE)
APISERVER = "apiserver"
EMBEDDED = "embedded"
"""The runtime that is a process of the node group."""
MAX_WATCHERS = 64
MAX_NODES = 32
NODE_GRACE_S = 20.0
"""A whole group ends below it, its pods perhaps with it."""

ACTORS = {
    CONTROL: ("store", "watchcache", "controllers", "scheduler"),
    WATCHER: (APISERVER,),
    NODE: ("runtime", "cri", "pleg", "devices", "podworker", "health", "frontdoor"),
    ADOPT: ("cri", "adopt", "frontdoor"),
}

DISPENSABLE = frozenset({"controllers", "scheduler", "health", "frontdoor"})
"""Without these the plane still keeps its promises to running pods: one of them failed shows in the status, no more."""


class PlaneShape(msgspec.Struct, frozen=True, kw_only=True):
    """What is wanted: which groups, how many API processes, and which embedded parts."""

    groups: tuple[str, ...] = GROUPS
    watchers: int = 1
    nodes: int = 1
    """How many nodes: those beyond the first are groups with supervisors of their own."""
    first_watcher: int = 0
    """Number of the first apiserver: not 0 only in the second and later watcher lines of honcho."""
    store_embedded: bool = True
    runtime_embedded: bool = True


def child(actor: str, group: str, instance: str = "") -> ChildSpec:
    return ChildSpec(
        instance=instance or actor,
        actor=actor,
        group=group,
        module=f"actors.{actor}.actor",
        critical=actor not in DISPENSABLE,
    )


def watcher(number: int) -> ChildSpec:
    return child(APISERVER, WATCHER, f"{APISERVER}-{number}")


def more_node(number: int) -> ChildSpec:
    """The number-th node of a plane, from 2 on."""
    return ChildSpec(
        instance=f"{NODE}-{number}",
        actor=NODE,
        group=NODE,
        module="supervisor.plane.node_group",
        grace_s=NODE_GRACE_S,
        critical=False,
    )


def children(shape: PlaneShape) -> tuple[ChildSpec, ...]:
    """The child specs of a plane, in start order; raises Usage for a group or count that cannot be."""
    check_watchers(shape.watchers)
    specs: list[ChildSpec] = []
    for group in shape.groups:
        if group not in ACTORS:
            raise Usage(f"no group is called {group!r}; use one of {', '.join(GROUPS)}")
        specs += [spec for actor in ACTORS[group] for spec in _instances(actor, group, shape)]
    if NODE in shape.groups:
        specs += map(more_node, range(2, shape.nodes + 1))
    return tuple(specs)


def check_watchers(count: int) -> None:
    if not 1 <= count <= MAX_WATCHERS:
        raise Usage(f"{count} watchers cannot run; use 1 to {MAX_WATCHERS}")


def check_nodes(count: int, runtime: str = EMBEDDED) -> None:
    if not 1 <= count <= MAX_NODES:
        raise Usage(f"{count} nodes cannot run; use 1 to {MAX_NODES}")
    if count > 1 and runtime != EMBEDDED:
        raise Usage(f"--nodes {count}: nodes cannot share the runtime {runtime}; each needs one, as the embedded is")


def _instances(actor: str, group: str, shape: PlaneShape) -> list[ChildSpec]:
    if actor == APISERVER:
        return [watcher(shape.first_watcher + index) for index in range(shape.watchers)]
    if (actor == "store" and not shape.store_embedded) or (actor == "runtime" and not shape.runtime_embedded):
        return []
    return [child(actor, group)]
