"""Claims of one pod: those it names, and the one that the scheduler would create for its extended resources."""

from collections.abc import Iterator, Mapping

import msgspec

from protocols.dra.allocator.claims import Claim, Request
from protocols.dra.allocator.extended import Backing, ExtendedClaim, backed, extended_claim
from protocols.dra.binding import unmet
from protocols.dra.pods import allocation_of, claim_names, device_of, extended_claim_name, results_of
from protocols.kinds import views
from protocols.kube.meta import namespace_of
from protocols.scheduling.requests import pod_requests


class ClaimState(msgspec.Struct, frozen=True):
    """A claim of a pod that waits."""

    claim: str
    state: str
    """`pending`, `allocated`, or why there is none."""
    devices: tuple[str, ...] = ()
    waits: tuple[str, ...] = ()
    """Binding conditions that its devices lack, as `DEVICE CONDITION`."""
    missing: bool = False
    """The pod waits for somebody to create the claim."""


def named_claims(pod: views.Pod, claims: Mapping[str, views.ResourceClaim]) -> Iterator[ClaimState]:
    """Yield the state of each claim that the pod's spec and status name; `claims` are those of the API by key."""
    extended = extended_claim_name(pod)
    for entry, name in {**claim_names(pod), **({"": extended} if extended else {})}.items():
        key = f"{namespace_of(pod)}/{name or entry}"
        if name is None:
            yield ClaimState(key, "the claim of this entry is not created yet", missing=True)
        elif name and key not in claims:
            yield ClaimState(key, "does not exist", missing=True)
        elif name:
            devices = tuple(str(device_of(result)) for result in results_of(claims[key]))
            waits = tuple(" ".join(words) for words in unmet(claims[key]))
            yield ClaimState(key, "allocated" if allocation_of(claims[key]) else "pending", devices, waits)


def claim_for_extended_resources(pod: views.Pod, classes: Backing) -> Claim | None:
    """Return the claim that the scheduler would create, or None if no class backs a resource of the pod.

    Its requests are named after resources and containers. Raises TooManyRequests.
    """
    resources = backed(pod_requests(pod.get("spec") or {}), classes)
    extended = extended_claim(pod, resources, classes) if resources else None
    return _readable(extended) if extended is not None and extended.claim.requests else None


def _readable(made: ExtendedClaim) -> Claim:
    names: dict[str, str] = {}
    for mapping in made.mappings:
        names.setdefault(mapping.request, f"{mapping.resource} of container {mapping.container}")
    requests = (_named(request, names.get(request.name, request.name)) for request in made.claim.requests)
    return msgspec.structs.replace(made.claim, requests=tuple(requests))


def _named(request: Request, name: str) -> Request:
    subrequests = tuple(msgspec.structs.replace(subrequest, name=name) for subrequest in request.subrequests)
    return msgspec.structs.replace(request, name=name, subrequests=subrequests)
