"""What supervisor and forkserver say to each other: one msgpack message per packet of a SOCK_SEQPACKET pair."""

import msgspec


class Fork(msgspec.Struct, frozen=True, tag="fork"):
    """Order: run MODULE.main(argv) in a new process."""

    instance: str
    module: str
    argv: tuple[str, ...]
    log: str


class Forked(msgspec.Struct, frozen=True, tag="forked"):
    instance: str
    pid: int


class NotForked(msgspec.Struct, frozen=True, tag="not_forked"):
    instance: str
    reason: str


class Exited(msgspec.Struct, frozen=True, tag="exited"):
    """`status` as waitpid returned it."""

    instance: str
    pid: int
    status: int


Report = Forked | NotForked | Exited
PACKET = 64 * 1024

encode = msgspec.msgpack.Encoder().encode
decode_order = msgspec.msgpack.Decoder(Fork).decode
decode_report: msgspec.msgpack.Decoder[Report] = msgspec.msgpack.Decoder(Report)
