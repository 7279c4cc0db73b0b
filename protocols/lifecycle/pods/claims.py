"""The ResourceClaims that a pod uses, and whether it may use them now. Pure."""

from collections.abc import Iterator, Mapping

import msgspec

from protocols.dra.pods import device_of
from protocols.kinds import views
from protocols.lifecycle.errors import ClaimsNotReady
from protocols.lifecycle.pods.types import PodSpec
from protocols.messages.devices import ClaimReference, ClaimResult, ContainerGrant, PodClaim

EXTENDED = ""
"""Our entry name of the claim for extended resources; no pod can use it."""


class ClaimEntry(msgspec.Struct, frozen=True):
    """A claim of a pod by the name of its entry and of the object."""

    entry: str
    """Name of the entry in the pod."""
    claim: str
    generated: bool = False
    """Created for this pod from a template or for its extended resources: the pod must own it."""


def uses_claims(spec: PodSpec) -> bool:
    """Return True for a pod with claims, be they of its spec or for extended resources."""
    return bool(_entries(spec) or _extended(spec))


def entries(spec: PodSpec) -> list[ClaimEntry]:
    """Return the entries that need a claim. Raises ClaimsNotReady while the name of one is unknown."""
    claim_entries, statuses = [], (spec.raw.get("status") or {}).get("resourceClaimStatuses") or ()
    created = {str(status.get("name")): status.get("resourceClaimName") or None for status in statuses}
    for item in _entries(spec):
        name, generated = item.get("resourceClaimName"), False
        if not name:
            name, generated = _generated(spec, str(item.get("name", "")), created), True
        if name:
            claim_entries.append(ClaimEntry(str(item.get("name", "")), str(name), generated))
    if name := _extended(spec).get("resourceClaimName"):
        claim_entries.append(ClaimEntry(EXTENDED, str(name), True))
    return claim_entries


def references(spec: PodSpec) -> tuple[ClaimReference, ...]:
    """Return the requests of claims that containers name, those of extended resources included."""
    named = (
        ClaimReference(container.name, str(item.get("name", "")), str(item.get("request") or ""))
        for container in spec.containers
        for item in (container.raw.get("resources") or {}).get("claims") or ()
    )
    mapped = (
        ClaimReference(
            str(item.get("containerName", "")),
            EXTENDED,
            str(item.get("requestName", "")),
            str(item.get("resourceName", "")),
        )
        for item in _extended(spec).get("requestMappings") or ()
    )
    return (*named, *mapped)


def check(spec: PodSpec, entry: ClaimEntry, claim: views.ResourceClaim | None) -> PodClaim:
    """Return the claim for its drivers. Raises ClaimsNotReady when the pod may not use it, or not yet.

    `claim`: None if the API has no such claim.
    """
    name = entry.claim
    if claim is None:
        raise ClaimsNotReady(f'fetch ResourceClaim {name}: resourceclaims.resource.k8s.io "{name}" not found')
    metadata, status = claim.get("metadata") or {}, claim.get("status") or {}
    uid = str(metadata.get("uid", ""))
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


def _results(allocation: views.AllocationResult) -> Iterator[ClaimResult]:
    for item in (allocation.get("devices") or {}).get("results") or ():
        device = device_of(item)
        yield ClaimResult(str(item.get("request", "")), device.driver, device.pool, device.device)


def _generated(spec: PodSpec, entry: str, made: Mapping[str, str | None]) -> str | None:
    """Return the name of the generated claim, None if none is needed. Raises ClaimsNotReady until that is known."""
    if entry in made:
        return made[entry]
    raise ClaimsNotReady(f'pod "{spec.namespace}/{spec.name}": ResourceClaim not created yet')


def _entries(spec: PodSpec) -> list[views.PodResourceClaim]:
    return list((spec.raw.get("spec") or {}).get("resourceClaims") or ())


def _extended(spec: PodSpec) -> views.PodExtendedResourceClaimStatus:
    return (spec.raw.get("status") or {}).get("extendedResourceClaimStatus") or {}


def _owned(metadata: views.ObjectMeta, uid: str) -> bool:
    return any(owner.get("controller") and owner.get("uid") == uid for owner in metadata.get("ownerReferences") or ())


def with_cdi(grant: ContainerGrant | None, names: tuple[str, ...]) -> ContainerGrant | None:
    """Add CDI names of DRA drivers to the grant of device plugins."""
    if not names:
        return grant
    grant = grant or ContainerGrant()
    return msgspec.structs.replace(grant, cdi_devices=tuple(dict.fromkeys((*grant.cdi_devices, *names))))
