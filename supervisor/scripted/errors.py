"""What can be wrong with a script."""

from typing import ClassVar

from protocols.errors import NodeplaneError


class ScriptInvalid(NodeplaneError):
    """Raised when a script cannot be read; says where in it, and what it may be instead. Nothing of it is played."""

    http: ClassVar[int] = 400
    grpc: ClassVar[str] = "INVALID_ARGUMENT"
