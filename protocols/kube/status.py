"""A Status of failure as an exception: what a server answers with, whoever made it."""

from collections.abc import Sequence
from typing import Any, ClassVar

from protocols.errors import NodeplaneError


class StatusError(NodeplaneError):
    """Raised where a request must be answered by a Status object; `code` is the HTTP status."""

    http: ClassVar[int] = 500
    grpc: ClassVar[str] = "UNKNOWN"

    def __init__(self, status: dict[str, Any]) -> None:
        super().__init__(status.get("message", ""))
        self.status = status
        self.warnings: Sequence[str] = ()
        """What the answer tells beside."""

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
