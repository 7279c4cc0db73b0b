"""Types of the bus: options, events, sources and sinks of streams. Read this first."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import IntEnum
from pathlib import Path
from typing import Generic, Literal, Protocol, TypeVar

import msgspec

V = TypeVar("V")
V_contra = TypeVar("V_contra", contravariant=True)

Value = msgspec.Struct | bytes
"""Value of a stream: a struct, or bytes sent unchanged (msgpack already, or anything with `type=bytes`)."""


class Op(IntEnum):
    """UPSERT and DELETE make state streams (a key's newest value counts), APPEND edge streams (each event counts)."""

    UPSERT = 1
    DELETE = 2
    APPEND = 3


class Item(msgspec.Struct, frozen=True):
    """One key of a snapshot. The value is encoded when its turn to travel comes, so it must never change afterwards."""

    key: str
    value: Value


class Event(msgspec.Struct, Generic[V], array_like=True, tag=1, gc=False):
    """One change.

    `mark` is the owner's own durable position (0 = none); events that share a mark are published without an await in
    between. `value` is None for a DELETE that carried nothing.

    It is also the frame on the wire, where `value` is the encoded body; decoded in place: one object a message.
    """

    op: Op
    key: str
    value: V | None
    seq: int = 0
    """0 in replays by mark only: an event of an earlier epoch, its mark counts."""
    mark: int = 0
    epoch: int = 0
    version: Literal[1] = 1


class BusOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of one bus: name, place of its sockets, intervals in seconds, bounds."""

    name: str
    """Name of this instance, e.g. `devices`; empty for a client, which binds nothing and takes no lock."""
    run_dir: Path
    """ROOT/run; made with mode 0700 when absent."""
    tick: float = 1.0
    """Seconds between ticks; also the interval of checks for silence."""
    idle_tick: float = 2.0
    """The same while nothing moves. Not more than half of stale_after and a tick: one that is late does no harm."""
    stale_after: float = 3.5
    """Seconds without a tick after which a follower calls itself stale."""
    buffer_events: int = 10_000
    """Events a follower holds back during a sync; past it the oldest go and it syncs again."""
    handlers: int = 1024
    """RPC handlers that run at once; a request past it fails with RESOURCE_EXHAUSTED.

    In cri each container that ends holds one for its grace period.
    """
    on_fault: Callable[[BaseException], None] | None = None
    """Called with an exception of a sink or a source (a bug there); None: it is logged."""


class Call(msgspec.Struct, frozen=True):
    """The request that a handler serves. A handler is cancelled soon after its deadline."""

    method: str
    id: str
    deadline: float
    """On this process's loop clock."""


class StreamSource(Protocol):
    """The owner's state behind a stream. Called in the event loop; must agree with what was published so far."""

    def snapshot(self) -> Iterable[Item]:
        """Return the whole state now; nothing for an edge stream."""
        ...

    def since(self, mark: int) -> Iterable["Event[Value]"] | None:
        """Return every event after the durable position `mark`, in order; None if some are not known any more."""
        ...


class StreamSink(Protocol[V]):
    """A follower's end. All calls come from the event loop, in stream order, never two at once."""

    def on_snapshot(self, items: list[tuple[str, V]], mark: int) -> None:
        """Replace everything. On an edge stream: events may have been lost, reconcile."""
        ...

    def on_event(self, event: Event[V]) -> None: ...

    def on_mark(self, mark: int) -> None:
        """Note that the position moved without an event. Nothing by default: some streams have no durable positions."""
        return

    def on_synced(self, synced: bool) -> None:
        """Note a change of `synced`; False: what was received so far may be behind the owner. Nothing by default."""
        return


Handler = Callable[[V_contra, Call], Awaitable[msgspec.Struct | None]]


class StateSource:
    """Ready-made source of a state stream: a mapping that its owner maintains, sent whole."""

    def __init__(self, items: Mapping[str, Value]) -> None:
        self._items = items

    def snapshot(self) -> Iterable[Item]:
        return [Item(key, value) for key, value in self._items.items()]

    def since(self, mark: int) -> Iterable[Event[Value]] | None:
        return None


class EdgeSource:
    """Ready-made source of an edge stream that remembers nothing past the ring."""

    def snapshot(self) -> Iterable[Item]:
        return ()

    def since(self, mark: int) -> Iterable[Event[Value]] | None:
        return None
