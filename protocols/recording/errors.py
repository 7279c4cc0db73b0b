"""Errors of recordings."""

from typing import ClassVar

from protocols.errors import NodeplaneError


class RecordingInvalid(NodeplaneError):
    """Raised for a file that is no recording, is damaged, too large, or of a version that is not read."""

    http: ClassVar[int] = 400
    grpc: ClassVar[str] = "INVALID_ARGUMENT"
