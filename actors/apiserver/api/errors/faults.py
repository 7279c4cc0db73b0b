"""Faults from below, of the store, the bus and the API's conventions, as answers of the API."""

from actors.apiserver.api.errors.answers import (
    ApiFault,
    BadRequest,
    BodyTooLarge,
    Expired,
    InternalError,
    Invalid,
    ServiceUnavailable,
    StoreFull,
    TooManyRequests,
    WorkTimeout,
)
from protocols.budget import BudgetSpent, DeadlinePassed
from protocols.errors import NodeplaneError
from protocols.etcd import errors as etcd
from protocols.kube.errors import KubeError, PatchImpossible

REFUSALS: dict[int, type[ApiFault]] = {413: BodyTooLarge, 422: Invalid}
"""Of bodies, patches and selectors by their HTTP code; all others are bad requests."""
REJECTED = "the server rejected our request due to an error in our request"
"""What clients know of a patch that cannot be applied; upstream says no more than that."""


def as_fault(error: NodeplaneError) -> ApiFault:
    """What a client is told; a store that is away is a reason to come back, not to give up."""
    if isinstance(error, ApiFault):
        return error
    if isinstance(error, BudgetSpent):
        return BodyTooLarge(str(error))
    if isinstance(error, DeadlinePassed):
        return WorkTimeout(str(error))
    if isinstance(error, KubeError):
        text = f"{REJECTED}: {error}" if isinstance(error, PatchImpossible) else str(error)
        return REFUSALS.get(error.http, BadRequest)(text)
    if isinstance(error, etcd.TooManyRequests):
        return TooManyRequests(str(error), retry_after=1)
    if isinstance(error, etcd.NoSpace):
        return StoreFull(str(error))
    if isinstance(error, etcd.TooLarge):
        return BodyTooLarge(str(error))
    if isinstance(error, etcd.Compacted):
        return Expired(str(error))
    if isinstance(error, etcd.Unavailable):
        return ServiceUnavailable(f"the store does not answer: {error}")
    return InternalError(str(error))
