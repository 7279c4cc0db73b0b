"""Which ResourceClaims a pod uses, and whether it may; the texts are upstream's. Pure."""

from collections.abc import Iterator, Mapping

import msgspec

from actors.podworker.errors import ClaimsNotReady
from actors.podworker.types import Object, PodSpec
from protocols.messages.devices import ClaimReference, ClaimResult, PodClaim

EXTENDED = ""
"""What we call the entry of the claim behind extended resources: no name a pod can give."""


class Entry(msgspec.Struct, frozen=True):
    """One claim the pod names."""

    entry: str
    """The pod's own name for it."""
    claim: str
    generated: bool = False
    """Made for this pod from a template, or for its extended resources: it must be the pod's own."""


def uses_claims(spec: PodSpec) -> bool:
    return bool(_entries(spec) or _extended(spec))


def entries(spec: PodSpec) -> list[Entry]:
    """Raises ClaimsNotReady while a claim's name is not known. An entry that needs no claim is left out."""
    found, statuses = [], (spec.raw.get("status") or {}).get("resourceClaimStatuses") or ()
    made = {str(status.get("name")): status.get("resourceClaimName") or None for status in statuses}
    for item in _entries(spec):
        name, generated = item.get("resourceClaimName"), False
        if not name:
            name, generated = _generated(spec, str(item.get("name", "")), made), True
        if name:
            found.append(Entry(str(item.get("name", "")), str(name), generated))
    if name := _extended(spec).get("resourceClaimName"):
        found.append(Entry(EXTENDED, str(name), True))
    return found


def references(spec: PodSpec) -> tuple[ClaimReference, ...]:
    named = (
        ClaimReference(container.name, str(item.get("name", "")), str(item.get("request") or ""))
        for container in spec.containers
        for item in (container.raw.get("resources") or {}).get("claims") or ()
    )
    mapped = (
        ClaimReference(str(item.get("containerName", "")), EXTENDED, str(item.get("requestName", "")))
        for item in _extended(spec).get("requestMappings") or ()
    )
    return (*named, *mapped)


def check(spec: PodSpec, entry: Entry, claim: Object) -> PodClaim:
    """The claim as its drivers are asked for it. Raises ClaimsNotReady when the pod may not have it, or not yet."""
    metadata, status = claim.get("metadata") or {}, claim.get("status") or {}
    name, uid = entry.claim, str(metadata.get("uid", ""))
    if entry.generated and not _owned(metadata, spec.uid):
        raise ClaimsNotReady(
            f"ResourceClaim {spec.namespace}/{name} was not created for Pod {spec.namespace}/{spec.name} "
            "(Pod is not owner)"
        )
    if not any(user.get("uid") == spec.uid for user in status.get("reservedFor") or ()):
        raise ClaimsNotReady(f"pod {spec.name} ({spec.uid}) is not allowed to use ResourceClaim {name} ({uid})")
    if status.get("allocation") is None:
        raise ClaimsNotReady(f"ResourceClaim {name}: not allocated")
    return PodClaim(entry.entry, spec.namespace, name, uid, tuple(_results(status["allocation"])))


def _results(allocation: Object) -> Iterator[ClaimResult]:
    for item in (allocation.get("devices") or {}).get("results") or ():
        words = (str(item.get(key, "")) for key in ("request", "driver", "pool", "device"))
        yield ClaimResult(*words)


def _generated(spec: PodSpec, entry: str, made: Mapping[str, str | None]) -> str | None:
    """None: this pod needs no claim for the entry. Raises ClaimsNotReady before anybody has said so."""
    if entry in made:
        return made[entry]
    raise ClaimsNotReady(f'pod "{spec.namespace}/{spec.name}": ResourceClaim not created yet')


def _entries(spec: PodSpec) -> list[Object]:
    return list((spec.raw.get("spec") or {}).get("resourceClaims") or ())


def _extended(spec: PodSpec) -> Object:
    return (spec.raw.get("status") or {}).get("extendedResourceClaimStatus") or {}


def _owned(metadata: Object, uid: str) -> bool:
    return any(owner.get("controller") and owner.get("uid") == uid for owner in metadata.get("ownerReferences") or ())
