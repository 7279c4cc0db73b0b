"""Faults from below, of the store, the bus and the API's conventions, as answers of the API."""

from actors.apiserver.errors import (
    ApiFault,
    BadRequest,
    BodyTooLarge,
    Expired,
    InternalError,
    Invalid,
    ServiceUnavailable,
    TooManyRequests,
)
from protocols.errors import NodeplaneError
from protocols.etcd import errors as etcd
from protocols.kube.errors import KubeError

REFUSALS: dict[int, type[ApiFault]] = {413: BodyTooLarge, 422: Invalid}
"""Of bodies, patches and selectors by their HTTP code; all others are bad requests."""


def as_fault(error: NodeplaneError) -> ApiFault:
    """What a client is told; a store that is away is a reason to come back, not to give up."""
    if isinstance(error, ApiFault):
        return error
    if isinstance(error, KubeError):
        return REFUSALS.get(error.http, BadRequest)(str(error))
    if isinstance(error, etcd.TooManyRequests):
        return TooManyRequests(str(error), retry_after=1)
    if isinstance(error, etcd.TooLarge):
        return BodyTooLarge(str(error))
    if isinstance(error, etcd.Compacted):
        return Expired(str(error))
    if isinstance(error, etcd.Unavailable):
        return ServiceUnavailable(f"the store does not answer: {error}")
    return InternalError(str(error))
