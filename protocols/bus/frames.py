"""The wire format, all of it: what each frame holds and how it becomes bytes. In words: docs/reference/bus.md.

Every frame is one msgpack array `[kind, version, ...]` (an event's has the version last). On PUB it follows its topic,
in one ZeroMQ frame.
"""

from collections.abc import Callable
from typing import Any, Literal, TypeVar

import msgspec

from protocols.bus.errors import FrameInvalid
from protocols.bus.types import Event, Value

VERSION: Literal[1] = 1
TICK_TOPIC = b"\0"
"""Topic of ticks: no stream's topic begins with NUL."""


EventFrame = Event[bytes]
"""[1, op, key, body, seq, mark, epoch, version]: see types.Event. Make one by Event(...), this is its type."""


class TickFrame(msgspec.Struct, array_like=True, tag=2, frozen=True):
    """Positions of the owner's streams by name: (seq, mark)."""

    version: Literal[1]
    epoch: int
    positions: dict[str, tuple[int, int]]


class SyncFrame(msgspec.Struct, array_like=True, tag=16, frozen=True):
    """A follower says where it is and asks for the rest. The same id again is the same question."""

    version: Literal[1]
    id: int
    stream: str
    epoch: int
    seq: int
    mark: int


class MoreFrame(msgspec.Struct, array_like=True, tag=17, frozen=True):
    """Chunk `index` has arrived: credit for another."""

    version: Literal[1]
    id: int
    stream: str
    index: int


class RequestFrame(msgspec.Struct, array_like=True, tag=18, frozen=True):
    """An RPC. `ttl_ms` is what is left until the deadline: clocks of peers are not compared."""

    version: Literal[1]
    id: str
    method: str
    ttl_ms: int
    idempotent: bool
    body: bytes


class CastFrame(msgspec.Struct, array_like=True, tag=19, frozen=True):
    """An RPC without an answer: nobody learns whether it ran."""

    version: Literal[1]
    method: str
    body: bytes


class PingFrame(msgspec.Struct, array_like=True, tag=20, frozen=True):
    """Ask for a pong, on a new connection and while a call waits long: a pong with another epoch ends old calls."""

    version: Literal[1]


class SnapshotFrame(msgspec.Struct, array_like=True, tag=32, frozen=True):
    """Chunk `index` of a snapshot that stands at (epoch, seq, mark)."""

    version: Literal[1]
    id: int
    stream: str
    epoch: int
    seq: int
    mark: int
    index: int
    last: bool
    items: list[tuple[str, bytes]]


class ReplayFrame(msgspec.Struct, array_like=True, tag=33, frozen=True):
    """Chunk `index` of the events that lead to (epoch, seq, mark)."""

    version: Literal[1]
    id: int
    stream: str
    epoch: int
    seq: int
    mark: int
    index: int
    last: bool
    events: list[EventFrame]


class BusyFrame(msgspec.Struct, array_like=True, tag=34, frozen=True):
    """Rejection of a sync: too many are under way, or the stream is not owned yet; ask again in `retry_ms`."""

    version: Literal[1]
    id: int
    stream: str
    retry_ms: int


class ReplyFrame(msgspec.Struct, array_like=True, tag=35, frozen=True):
    """The result of the request `id`, with the callee's epoch: a new one means that calls to the old one died."""

    version: Literal[1]
    id: str
    epoch: int
    body: bytes


class FailureFrame(msgspec.Struct, array_like=True, tag=36, frozen=True):
    """The error of the request `id`; `code` is a name of gRPC's status codes."""

    version: Literal[1]
    id: str
    epoch: int
    code: str
    message: str
    details: dict[str, str]


class PongFrame(msgspec.Struct, array_like=True, tag=37, frozen=True):
    """Answer to a ping, with the epoch of the instance that answers."""

    version: Literal[1]
    epoch: int


Published = EventFrame | TickFrame
Asked = SyncFrame | MoreFrame | RequestFrame | CastFrame | PingFrame
Answer = SnapshotFrame | ReplayFrame | BusyFrame | ReplyFrame | FailureFrame | PongFrame
Chunk = SnapshotFrame | ReplayFrame

UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError)
"""Exceptions a decoder raises on bytes that are not its message."""

encode = msgspec.msgpack.Encoder().encode
"""Any frame, or the body of a message, to bytes."""
decode_published: Callable[[bytes | memoryview], Published] = msgspec.msgpack.Decoder(Published).decode
"""Decode the frame behind the topic on PUB. Like the others raises one of UNDECODABLE."""
decode_event: Callable[[bytes], EventFrame] = msgspec.msgpack.Decoder(EventFrame).decode
"""Decode where it can only be an event."""
decode_asked: Callable[[bytes], Asked] = msgspec.msgpack.Decoder(Asked).decode
"""DEALER to ROUTER."""
decode_answer: Callable[[bytes], Answer] = msgspec.msgpack.Decoder(Answer).decode
"""ROUTER to DEALER."""


def cost(event: EventFrame) -> int:
    """Return about how many bytes an event costs that is held back."""
    return len(event.value or b"") + len(event.key) + 128


def topic_of(stream: str) -> bytes:
    """Return the PUB topic of a stream; NUL ends it, so that no topic is the prefix of another."""
    return stream.encode() + b"\0"


T = TypeVar("T")
EMPTY = b"\x80"
"""An empty msgpack map: any struct without required fields."""

_decoders: dict[Any, Callable[[bytes], Any]] = {bytes: bytes}
"""By type: as many as the code has messages. `bytes` gets a body as it is."""


def body_of(value: Value | None) -> bytes:
    """Encode once; bytes are used unchanged, None is a struct without fields."""
    if value is None:
        return EMPTY
    return value if isinstance(value, bytes) else encode(value)


def decoder_of(kind: type[T]) -> Callable[[bytes], T]:
    """Return a function from body to value, which raises one of UNDECODABLE."""
    decode = _decoders.get(kind)
    if decode is None:
        decode = _decoders[kind] = msgspec.msgpack.Decoder(kind).decode
    return decode


def value_of(body: bytes, kind: type[T]) -> T:
    """Decode a body; raises FrameInvalid."""
    try:
        return decoder_of(kind)(body)
    except UNDECODABLE as error:
        raise FrameInvalid(f"not a {kind.__name__}: {error}") from None
