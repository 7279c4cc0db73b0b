"""What can be wrong with a selector, and with evaluating one."""

from typing import ClassVar

from protocols.errors import NodeplaneError


class CelError(NodeplaneError):
    """Base class of this package."""

    http: ClassVar[int] = 422
    grpc: ClassVar[str] = "INVALID_ARGUMENT"


class CompileError(CelError):
    """Raised when a text is no selector: syntax, types, or a result that is not bool. The text is upstream's detail."""


class TooLong(CompileError):
    """Raised when a text is longer than LIMIT bytes; it is not looked at."""


class TooComplex(CompileError):
    """Raised when the worst case of an expression would cost more than a selector may."""


class EvaluationError(CelError):
    """Raised when a selector cannot be decided for a device: it asks for what the device does not have, its result is
    not bool, or it went over the engine's bound."""
