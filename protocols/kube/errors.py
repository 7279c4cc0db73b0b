"""Faults of reading Kubernetes conventions. Faults an API server answers with are `status.StatusError`."""

from typing import ClassVar

from protocols.errors import NodeplaneError


class KubeError(NodeplaneError):
    """Base class of this package: a value from outside does not follow the API's conventions."""

    http: ClassVar[int] = 400
    grpc: ClassVar[str] = "INVALID_ARGUMENT"


class SelectorInvalid(KubeError):
    """Raised when a label or field selector does not parse."""


class QuantityInvalid(KubeError):
    """Raised when a resource quantity does not follow the quantity grammar."""


class TimeInvalid(KubeError):
    """Raised when a timestamp is not RFC 3339."""
