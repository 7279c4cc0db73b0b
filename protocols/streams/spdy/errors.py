"""What can be wrong with a SPDY connection."""

from typing import ClassVar

from protocols.errors import NodeplaneError


class SpdyBroken(NodeplaneError):
    """Raised when the peer's bytes are no SPDY/3 or pass a limit; the connection cannot go on."""

    http: ClassVar[int] = 400
    grpc: ClassVar[str] = "INVALID_ARGUMENT"
