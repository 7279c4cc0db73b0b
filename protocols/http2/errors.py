"""What is wrong with a connection as a whole."""

from typing import ClassVar

from protocols.errors import NodeplaneError


class BadHttp2(NodeplaneError):
    """Raised when the other side does not speak HTTP/2 as it must; the connection is of no more use."""

    http: ClassVar[int] = 502
    grpc: ClassVar[str] = "UNAVAILABLE"
