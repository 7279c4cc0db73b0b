"""Errors of values that break Kubernetes conventions, errors of API clients, and a Status as an exception.

The API server makes its responses from them in one place of its own.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from protocols.errors import NodeplaneError

SHAPE_ERRORS = (TypeError, ValueError, AttributeError, KeyError)
"""Raised when reading an object of the wrong shape. Our API admits none, another server might."""


class KubeError(NodeplaneError, http=400, grpc="INVALID_ARGUMENT"):
    """Base class of this package: a value from outside does not follow the API's conventions."""


class BodyInvalid(KubeError):
    """Raised when a body is no JSON, or is nested too deeply."""


class PatchInvalid(KubeError):
    """Raised when a patch is malformed, whatever it is applied to."""


class PatchImpossible(KubeError, http=422, grpc="FAILED_PRECONDITION"):
    """Raised when a sound patch cannot be applied to this object."""


class PatchTestFailed(PatchImpossible):
    """Raised when the object does not pass a test operation of a JSON patch."""


class PatchTooLarge(KubeError, http=413, grpc="RESOURCE_EXHAUSTED"):
    """Raised when a patch has too many operations, or copies too much."""


class DefaultsTooLarge(KubeError, http=413, grpc="RESOURCE_EXHAUSTED"):
    """Raised when the defaults of a custom resource's schema would make an object too large."""


class SelectorInvalid(KubeError):
    """Raised when a label or field selector does not parse."""


class QuantityInvalid(KubeError):
    """Raised when a resource quantity does not follow the quantity grammar."""


class TimeInvalid(KubeError):
    """Raised when a timestamp is not RFC 3339."""


class ApiError(NodeplaneError):
    """Raised when the API answers with a Status of failure; `code`, `reason` and `details` are the Status's."""

    def __init__(self, code: int, status: dict[str, Any], retry_after: float | None = None) -> None:
        super().__init__(" ".join(str(status.get("message") or f"the API answered {code}").split()))
        self.code = code
        self.status = status
        self.reason = str(status.get("reason") or "")
        details = status.get("details")
        self.details: dict[str, Any] = details if isinstance(details, dict) else {}
        self.retry_after = retry_after
        """Seconds the server asks to wait before the same request; None when it does not ask."""

    @property
    def namespace_ends(self) -> bool:
        """True for an object that cannot be created because its namespace is being deleted."""
        return any(cause.get("reason") == "NamespaceTerminating" for cause in self.details.get("causes") or ())


@contextmanager
def suppress_status(*codes: int) -> Iterator[None]:
    """Suppress an ApiError of these codes: 404 where the object may be gone, 409 where it may be another one by now."""
    try:
        yield
    except ApiError as error:
        if error.code not in codes:
            raise


class ApiAway(NodeplaneError, http=503, grpc="UNAVAILABLE"):
    """Raised when the API could not be reached, broke off or answered nonsense within the deadline.

    A write may have happened.
    """


class CredentialsUnusable(NodeplaneError):
    """Raised before anything is sent when a client's certificate, key, CA or token cannot be read or used."""


class EventInvalid(KubeError):
    """Raised when a line of a watch is not an event: the position cannot be trusted any more."""


class StatusError(NodeplaneError, http=500, grpc="UNKNOWN"):
    """Raised where a request must be answered by a Status object; `code` is the HTTP status."""

    def __init__(self, status: dict[str, Any]) -> None:
        super().__init__(status.get("message", ""))
        self.status = status
        self.warnings: Sequence[str] = ()
        """Texts for the Warning headers of the response."""

    @property
    def code(self) -> int:
        return int(self.status.get("code") or 500)

    @property
    def reason(self) -> str:
        return str(self.status.get("reason") or "")

    @property
    def details(self) -> dict[str, Any]:
        return self.status.get("details") or {}

    @property
    def retry_after(self) -> int:
        """Seconds for the Retry-After header; 0 = no header."""
        return int(self.details.get("retryAfterSeconds") or 0)
