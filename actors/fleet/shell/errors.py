"""Errors that end a fleet."""

from protocols.errors import NodeplaneError


class NodeTaken(NodeplaneError, http=409, grpc="ALREADY_EXISTS"):
    """Raised when the API has a node of a name that the fleet needs, and it is not the fleet's."""
