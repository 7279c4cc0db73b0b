"""Faults of reading and writing Kubernetes protobuf."""

from typing import ClassVar

from protocols.kube.errors import KubeError


class ProtobufInvalid(KubeError):
    """Raised when bytes are not the message they should be: broken, cut off, of wrong types or beyond the limits."""


class KindUnknown(KubeError):
    """Raised when there are no field numbers for a kind; its objects travel as JSON only."""

    http: ClassVar[int] = 415

    def __init__(self, api_version: str, kind: str) -> None:
        super().__init__(f"no protobuf form of kind {kind!r} in version {api_version!r} is known")


class Unencodable(KubeError):
    """Raised when a value has a type that its message has no place for."""

    http: ClassVar[int] = 500
    grpc: ClassVar[str] = "INTERNAL"
