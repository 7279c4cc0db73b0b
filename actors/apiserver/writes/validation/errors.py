"""What can be wrong with the fields of a body, before it becomes the error of a request."""

from typing import ClassVar

from protocols.errors import NodeplaneError


class WrongType(NodeplaneError):
    """Raised when a value is not of the type its field has."""

    http: ClassVar[int] = 400
    grpc: ClassVar[str] = "INVALID_ARGUMENT"
