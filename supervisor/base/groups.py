"""The actors of a plane: three groups, their start order (they stop in reverse), and the limits of their supervision.

Actors are named by module, since the supervisor never imports one.
"""

import enum

import msgspec

from supervisor.base.errors import UsageError


class Restart(enum.StrEnum):
    """Restart policy of a child, in the words of Erlang supervisors."""

    PERMANENT = "permanent"
    """Restarted however it ends."""
    TRANSIENT = "transient"
    """Restarted unless it ended with exit code 0."""


class ChildSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One child process; `instance` is its name on the bus and of its log file."""

    instance: str
    actor: str
    group: str
    module: str
    restart: Restart = Restart.PERMANENT
    grace_s: float = 7.0
    """Seconds between SIGTERM and SIGKILL; actors have 5 s for an orderly end."""
    critical: bool = True
    """True if the plane ends when this child exceeds its restart budget."""


class SupervisionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds and budgets of supervision. Tests use smaller ones."""

    start_s: float = 20.0
    """From the start to the first heartbeat. A child with heartbeats may stay `starting` while it waits for others."""
    beat_s: float = 5.0
    """Time without a heartbeat after which an idle child is hung."""
    busy_s: float = 20.0
    """Time without a heartbeat after which a working child is hung too: its event loop is blocked."""
    busy_share: float = 0.1
    """Share of a CPU that a child without heartbeats must use to count as working."""
    abort_s: float = 1.0
    """From SIGABRT (stack dump) to SIGKILL."""
    backoff_s: float = 0.1
    backoff_max_s: float = 30.0
    jitter: float = 0.2
    healthy_s: float = 60.0
    """Time as ready after which earlier crashes no longer count."""
    start_failures: int = 5
    """Consecutive ends before it was ready."""
    fork_failures: int = 12
    """Consecutive failures of fork(), for want of memory or pids; about two minutes with the backoff."""
    crashes: int = 30
    crash_period_s: float = 60.0
    ordered_s: float = 10.0
    """Time after an ordered signal in which an end does not count against the budget."""
    late_tick_s: float = 2.0
    """A tick later than this means that the supervisor was stopped; missing heartbeats of that time do not count."""
    slow_start_s: float = 10.0
    """Time between looks at what a start waits for; what has changed is reported."""
    shutdown_s: float = 25.0
    """Limit of a whole shutdown; processes that are left get SIGKILL."""


CONTROL, WATCHER, NODE = "control", "watcher", "node"
ADOPT = "adopt"
"""The group of `nodeplane adopt`, beside a real kubelet; no part of a plane."""
GROUPS = (CONTROL, WATCHER, NODE)
APISERVER = "apiserver"
CEL = "cel"
"""The worker for expressions, one beside each actor of EVALUATING that has had one to evaluate."""
OTLP = "otlp"
"""The exporter of traces, which runs only if they are exported."""
RECORDER = "recorder"
"""The recorder of the whole root, which runs only if there is a file to record to."""
RUNTIME = "runtime"
EMBEDDED = "embedded"
"""The runtime that runs as an actor of the node group."""
MAX_WATCHERS = 64
MAX_NODES = 32
NODE_GRACE_S = 20.0
"""An additional node ends its whole group, perhaps with its containers."""
NODE_SHUTDOWN_S = 12.0
"""Limit of the shutdown of an additional node's actors, so that its containers are stopped before its grace ends."""

ACTORS = {
    CONTROL: ("store", "watchcache", "controllers", "scheduler", OTLP),
    WATCHER: (APISERVER,),
    NODE: (RUNTIME, "cri", "pleg", "devices", "podworker", "health", "frontdoor", OTLP),
    ADOPT: ("cri", "adopt", "frontdoor"),
}

UPSTREAM = frozenset({"store", "watchcache", APISERVER})
"""Actors that start before all others and stop after them, whatever their groups: the others are clients of the API."""

EVALUATING = frozenset({"controllers", "scheduler", APISERVER})

DISPENSABLE = frozenset({"controllers", "scheduler", "health", "frontdoor", CEL, OTLP, RECORDER})
"""Actors without which running pods go on as promised; one that failed only shows in the status."""


class PlaneShape(msgspec.Struct, frozen=True, kw_only=True):
    """The groups to run, the numbers of processes, and which parts are embedded."""

    groups: tuple[str, ...] = GROUPS
    watchers: int = 1
    nodes: int = 1
    """Nodes; those beyond the first are groups with supervisors of their own."""
    first_watcher: int = 0
    """Number of the first API process; not 0 only in further watcher lines of honcho."""
    store_embedded: bool = True
    runtime_embedded: bool = True
    otlp: str = ""
    """Group that exports the traces of the whole root; empty: none."""
    recorded: bool = False


def child(actor: str, group: str, instance: str = "") -> ChildSpec:
    """Return the specification of an actor; an instance has the actor's name unless there are several."""
    return ChildSpec(
        instance=instance or actor,
        actor=actor,
        group=group,
        module=f"actors.{actor}.actor",
        critical=actor not in DISPENSABLE,
    )


def watcher(number: int) -> ChildSpec:
    """Return the specification of one of the plane's API processes beside the first."""
    return child(APISERVER, WATCHER, f"{APISERVER}-{number}")


def worker(instance: str, group: str) -> ChildSpec:
    """Return the spec of the worker that evaluates expressions for an instance."""
    return child(CEL, group, f"{CEL}-{instance}")


def additional_node(number: int) -> ChildSpec:
    """Return the spec of node `number`, from 2 on."""
    return ChildSpec(
        instance=f"{NODE}-{number}",
        actor=NODE,
        group=NODE,
        module="supervisor.plane.node_group",
        grace_s=NODE_GRACE_S,
        critical=False,
    )


def children(shape: PlaneShape) -> tuple[ChildSpec, ...]:
    """Return the specs of a plane in start order. Raises UsageError for an unknown group or an impossible count."""
    check_watchers(shape.watchers)
    specs: list[ChildSpec] = []
    for group in shape.groups:
        if group not in ACTORS:
            raise UsageError(f"no group is called {group!r}; use one of {', '.join(GROUPS)}")
        specs += [spec for actor in ACTORS[group] for spec in _instances(actor, group, shape)]
    specs.sort(key=lambda spec: spec.actor not in UPSTREAM)  # stable: otherwise in the order of the groups
    if NODE in shape.groups:
        specs += map(additional_node, range(2, shape.nodes + 1))
        specs += [child(RECORDER, NODE)] if shape.recorded else []  # it ends first, and reads the others before
    return tuple(specs)


def check_watchers(count: int) -> None:
    """Raise UsageError for a number of API processes that cannot run."""
    if not 1 <= count <= MAX_WATCHERS:
        raise UsageError(f"{count} watchers cannot run; use 1 to {MAX_WATCHERS}")


def check_nodes(count: int, runtime: str = EMBEDDED) -> None:
    """Raise UsageError for a number of nodes that cannot run."""
    if not 1 <= count <= MAX_NODES:
        raise UsageError(f"{count} nodes cannot run; use 1 to {MAX_NODES}")
    if count > 1 and runtime != EMBEDDED:
        raise UsageError(
            f"--nodes {count}: nodes cannot share the runtime {runtime}; each needs one, as the embedded is"
        )


def _instances(actor: str, group: str, shape: PlaneShape) -> list[ChildSpec]:
    if actor == APISERVER:
        return [watcher(shape.first_watcher + index) for index in range(shape.watchers)]
    if (actor == "store" and not shape.store_embedded) or (actor == RUNTIME and not shape.runtime_embedded):
        return []
    if actor == OTLP and shape.otlp != group:
        return []
    return [child(actor, group)]
