"""Messages between actors, supervisor and command line: heartbeats, status, commands, faults.

A supervisor binds ROOT/run/supervisor.rpc (root) or supervisor-GROUP.rpc (one group per process, as honcho runs them).
"""

import msgspec

ROOT_NAME = "supervisor"

HEARTBEAT = "beat"
"""Cast Heartbeat, from each actor, every second (2 s while nothing moves) and on each change of state."""

STATUS = "status"
"""RPC Empty -> PlaneStatus."""

KILL = "kill"
"""RPC KillActor -> Empty: send a signal to one actor (chaos)."""

RESTART = "restart"
"""RPC ActorName -> Empty: orderly restart of one actor."""

SCALE = "scale"
"""RPC ScaleActor -> Empty."""

STOP = "stop"
"""RPC StopPlane -> Empty: answered when the shutdown has begun."""

METRICS = "metrics"
"""RPC Empty -> MetricsText, served by every actor and every supervisor."""


class Empty(msgspec.Struct, frozen=True):
    """Request or answer without content."""


class OwnedStream(msgspec.Struct, frozen=True):
    """Position of a stream that the actor publishes; `items` in its state, -1 where nobody counts them."""

    stream: str
    seq: int
    mark: int
    items: int = -1


class FollowedStream(msgspec.Struct, frozen=True):
    """Position of a stream that the actor follows."""

    owner: str
    stream: str
    epoch: int
    seq: int
    mark: int
    synced: bool


class Heartbeat(msgspec.Struct, frozen=True):
    """State of an actor, sent to its supervisor every second."""

    instance: str
    pid: int
    epoch: int
    state: str
    """starting, ready or stopping."""
    note: str = ""
    """One line for users: what it waits for, or the mode it runs in."""
    owns: tuple[OwnedStream, ...] = ()
    follows: tuple[FollowedStream, ...] = ()
    worker: bool = False
    """True once it needs the worker for expressions beside it, which the supervisor then runs."""


class ActorStatus(msgspec.Struct, frozen=True):
    """One actor as its supervisor sees it, with its last heartbeat."""

    instance: str
    group: str
    pid: int
    state: str
    """waiting, starting, ready, live, hung, backoff, stopping, stopped or failed."""
    uptime_s: float
    restarts: int
    last_reason: str
    """Why it was restarted last, e.g. `killed by SIGKILL`; empty if never."""
    beat: Heartbeat | None = None


class PlaneStatus(msgspec.Struct, frozen=True):
    """Answer of one supervisor: its actors and the plane's public addresses."""

    supervisor: str
    pid: int
    uptime_s: float
    actors: tuple[ActorStatus, ...]
    endpoints: dict[str, str]
    """api, kubeconfig, kubelet, cri, metrics, ..."""


class ActorName(msgspec.Struct, frozen=True):
    """Request about one actor process, named as in `nodeplane status`."""

    instance: str


class KillActor(msgspec.Struct, frozen=True):
    """Request to send a signal to an actor, for tests of crashes."""

    instance: str
    signal: int = 9


class ScaleActor(msgspec.Struct, frozen=True):
    """Request to run `count` API processes or nodes."""

    actor: str
    count: int


class StopPlane(msgspec.Struct, frozen=True):
    """Request to stop all actors of this supervisor."""

    containers: bool = True
    """Also stop the embedded runtime's containers."""


class MetricsText(msgspec.Struct, frozen=True):
    """A page of metrics: of one actor, or of a supervisor and all its actors."""

    text: str
    """Prometheus text format."""
