"""What can be wrong with a configuration that is applied."""

from typing import ClassVar

from protocols.errors import NodeplaneError


class ConfigInvalid(NodeplaneError):
    """Raised when an applied configuration has unknown fields, or list elements that cannot be told apart."""

    http: ClassVar[int] = 400
    grpc: ClassVar[str] = "INVALID_ARGUMENT"


class Owned(NodeplaneError):
    """Raised when an apply would change what others own, and was not forced. `fields`: paths by owner."""

    http: ClassVar[int] = 409
    grpc: ClassVar[str] = "ABORTED"

    def __init__(self, fields: "list[tuple[dict[str, object], tuple[str, ...]]]") -> None:
        super().__init__("fields are owned by other managers")
        self.fields = fields
