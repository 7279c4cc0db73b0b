"""ResourceClaims of a pod: read from the API and prepared by the device manager before the sandbox."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import cast

import msgspec

from actors.podworker.model.dependencies import Dependencies
from actors.podworker.model.errors import ClaimsNotReady
from actors.podworker.model.types import PodSpec
from protocols.bus import BusError, DeadlineExceeded, NotFound, Unavailable
from protocols.dra.pods import device_of
from protocols.errors import NodeplaneError
from protocols.kinds import views
from protocols.messages.devices import ClaimReference, ClaimResult, ContainerGrant, PodClaim, PrepareClaims
from protocols.trace import span

EXTENDED = ""
"""Our entry name of the claim for extended resources; no pod can use it."""
REASON = "FailedPrepareDynamicResources"


class ClaimEntry(msgspec.Struct, frozen=True):
    entry: str
    """Name of the entry in the pod."""
    claim: str
    generated: bool = False
    """Created for this pod from a template or for its extended resources: the pod must own it."""


def uses_claims(spec: PodSpec) -> bool:
    return bool(_entries(spec) or _extended(spec))


def entries(spec: PodSpec) -> list[ClaimEntry]:
    """Return the entries that need a claim. Raises ClaimsNotReady while the name of one is unknown."""
    found, statuses = [], (spec.raw.get("status") or {}).get("resourceClaimStatuses") or ()
    made = {str(status.get("name")): status.get("resourceClaimName") or None for status in statuses}
    for item in _entries(spec):
        name, generated = item.get("resourceClaimName"), False
        if not name:
            name, generated = _generated(spec, str(item.get("name", "")), made), True
        if name:
            found.append(ClaimEntry(str(item.get("name", "")), str(name), generated))
    if name := _extended(spec).get("resourceClaimName"):
        found.append(ClaimEntry(EXTENDED, str(name), True))
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


def check(spec: PodSpec, entry: ClaimEntry, claim: views.ResourceClaim) -> PodClaim:
    """Return the claim for its drivers. Raises ClaimsNotReady when the pod may not use it, or not yet."""
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


class ClaimPreparation:
    def __init__(self, deps: Dependencies) -> None:
        self._deps = deps

    async def prepare(self, spec: PodSpec, renew: bool) -> dict[str, tuple[str, ...]]:
        """Prepare the pod's claims and return CDI names by container. `renew`: a sandbox is to be created.

        Raises ClaimsNotReady, recorded as an event, or BusError when the device manager is away.
        """
        if not uses_claims(spec):
            return {}
        try:
            if not renew and (known := await self._prepared(spec)) is not None:
                return known
            return await self._request(spec, await self._look_up(spec), renew=True)
        except (Unavailable, DeadlineExceeded):
            raise
        except (ClaimsNotReady, BusError) as error:
            text = f"prepare dynamic resources: {error}"
            self._deps.recorder.pod(spec, "Warning", REASON, f"Failed to prepare dynamic resources: {text}")
            raise ClaimsNotReady(text) from None

    async def adopt(self, spec: PodSpec) -> dict[str, tuple[str, ...]] | None:
        """Return CDI names of a running pod; None when it is to be retried. No event is recorded.

        The device manager may have lost its state: this call restores what it has to unprepare later.
        """
        try:
            if not uses_claims(spec):
                return {}
            known = await self._prepared(spec)
            return known if known is not None else await self._request(spec, await self._look_up(spec), renew=True)
        except (ClaimsNotReady, BusError):
            return None

    async def _prepared(self, spec: PodSpec) -> dict[str, tuple[str, ...]] | None:
        """Return the CDI names if all claims are prepared, even if the claims have left the API; else None."""
        claims = tuple(PodClaim(item.entry, spec.namespace, item.claim, "") for item in entries(spec))
        try:
            return await self._request(spec, claims, renew=False)
        except NotFound:
            return None

    async def _look_up(self, spec: PodSpec) -> tuple[PodClaim, ...]:
        found = await asyncio.gather(*(self._read(spec, item) for item in entries(spec)))
        return tuple(check(spec, item, claim) for item, claim in found)

    async def _read(self, spec: PodSpec, entry: ClaimEntry) -> tuple[ClaimEntry, views.ResourceClaim]:
        try:
            claim = await self._deps.objects.read("ResourceClaim", spec.namespace, entry.claim)
        except NodeplaneError as error:
            raise ClaimsNotReady(f"fetch ResourceClaim {entry.claim}: {error}") from None
        if claim is None:
            raise ClaimsNotReady(
                f'fetch ResourceClaim {entry.claim}: resourceclaims.resource.k8s.io "{entry.claim}" not found'
            )
        return entry, cast("views.ResourceClaim", claim)

    async def _request(self, spec: PodSpec, claims: tuple[PodClaim, ...], renew: bool) -> dict[str, tuple[str, ...]]:
        with span(spec.uid, "claims"):
            return await self._deps.devices.prepare(
                PrepareClaims(
                    uid=spec.uid,
                    namespace=spec.namespace,
                    name=spec.name,
                    claims=claims,
                    references=references(spec),
                    renew=renew,
                )
            )


def with_cdi(grant: ContainerGrant | None, names: tuple[str, ...]) -> ContainerGrant | None:
    """Add CDI names of DRA drivers to the grant of device plugins."""
    if not names:
        return grant
    grant = grant or ContainerGrant()
    return msgspec.structs.replace(grant, cdi_devices=tuple(dict.fromkeys((*grant.cdi_devices, *names))))
