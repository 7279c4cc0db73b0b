"""The root of every error nodeplane raises: one class per fault, each with the HTTP and gRPC code it becomes."""

from typing import ClassVar


class NodeplaneError(Exception):
    """Base class. `str(error)` is one line for users: what is wrong and how to fix it."""

    http: ClassVar[int] = 500
    grpc: ClassVar[str] = "INTERNAL"


class SettingsInvalid(NodeplaneError):
    """Raised when settings, flags or paths cannot be used; the process exits with code 2."""

    http: ClassVar[int] = 400
    grpc: ClassVar[str] = "INVALID_ARGUMENT"
