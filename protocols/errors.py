"""The root of every error nodeplane raises: one class per fault, each with the HTTP and gRPC code it becomes."""

from typing import ClassVar


class NodeplaneError(Exception):
    """Base class. `str(error)` is one line for users: what is wrong and how to fix it."""

    http: ClassVar[int] = 500
    grpc: ClassVar[str] = "INTERNAL"

    def __init_subclass__(cls, *, http: int | None = None, grpc: str | None = None) -> None:
        """A class that is given no code has the one of its bases."""
        super().__init_subclass__()
        if http is not None:
            cls.http = http
        if grpc is not None:
            cls.grpc = grpc


class SettingsInvalid(NodeplaneError, http=400, grpc="INVALID_ARGUMENT"):
    """Raised when settings, flags or paths cannot be used; the process exits with code 2."""
