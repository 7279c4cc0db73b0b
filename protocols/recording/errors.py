"""Errors of recordings."""

from protocols.errors import NodeplaneError


class RecordingInvalid(NodeplaneError, http=400, grpc="INVALID_ARGUMENT"):
    """Raised for a file that is no recording, is damaged, too large, or of a version that is not read."""
