"""Why a pod's claims keep it from a node for now."""

from typing import ClassVar

from protocols.errors import NodeplaneError


class NotReady(NodeplaneError):
    """Raised before nodes are looked at: no node could be right as things are. `topics`: what may change that."""

    http: ClassVar[int] = 409
    grpc: ClassVar[str] = "FAILED_PRECONDITION"

    def __init__(self, message: str, topics: frozenset[str], quiet: bool = False) -> None:
        super().__init__(message)
        self.topics = topics
        self.quiet = quiet
        """It is usual and soon over: people are not told."""


class Contested(NodeplaneError):
    """Raised when a device of an allocated claim is also another's who came before, or may have: two schedulers were at
    work. The pod must not run with it."""

    http: ClassVar[int] = 409
    grpc: ClassVar[str] = "ABORTED"


class Overtaken(NodeplaneError):
    """Raised when a claim is not what the decision was made on: deleted, or allocated by somebody else meanwhile."""

    http: ClassVar[int] = 409
    grpc: ClassVar[str] = "ABORTED"
