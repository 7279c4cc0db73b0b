"""Messages between supervisor and forkserver: one msgpack message per packet of a SOCK_SEQPACKET pair."""

import msgspec


class Fork(msgspec.Struct, frozen=True, tag="fork"):
    """Order: run MODULE.main(argv) in a new process."""

    instance: str
    module: str
    argv: tuple[str, ...]
    log: str


class Ping(msgspec.Struct, frozen=True, tag="ping"):
    """Order: answer with a Pong."""


class Pong(msgspec.Struct, frozen=True, tag="pong"):
    """Answer to a Ping. While `loading`, the forkserver answers only between two imports."""

    loading: bool


class Forked(msgspec.Struct, frozen=True, tag="forked"):
    """Report: the process of an instance runs."""

    instance: str
    pid: int


class NotForked(msgspec.Struct, frozen=True, tag="not_forked"):
    """Report: fork or import failed, so that the instance has no process."""

    instance: str
    reason: str


class Exited(msgspec.Struct, frozen=True, tag="exited"):
    """`status` as waitpid returned it."""

    instance: str
    pid: int
    status: int


Order = Fork | Ping
Report = Forked | NotForked | Exited | Pong
PACKET = 64 * 1024

encode = msgspec.msgpack.Encoder().encode
decode_order: msgspec.msgpack.Decoder[Order] = msgspec.msgpack.Decoder(Order)
decode_report: msgspec.msgpack.Decoder[Report] = msgspec.msgpack.Decoder(Report)
