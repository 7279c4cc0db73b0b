"""A pod's claims before its sandbox: looked up in the API, handed to the device manager, refusals told as events."""

import asyncio

import msgspec

from actors.podworker.claims.resolve import Entry, check, entries, references, uses_claims
from actors.podworker.errors import ClaimsNotReady
from actors.podworker.ports import World
from actors.podworker.types import PodSpec
from protocols.bus import BusError, DeadlineExceeded, NotFound, Unavailable
from protocols.errors import NodeplaneError
from protocols.messages.devices import ContainerGrant, PodClaim, PrepareClaims

REASON = "FailedPrepareDynamicResources"


class Claims:
    def __init__(self, world: World) -> None:
        self._world = world

    async def prepare(self, spec: PodSpec, renew: bool) -> dict[str, tuple[str, ...]]:
        """CDI names by container. `renew`: a sandbox is to be made. Raises ClaimsNotReady, told as an event, or
        BusError when the device manager is away."""
        if not uses_claims(spec):
            return {}
        try:
            if not renew and (known := await self._known(spec)) is not None:
                return known
            return await self._ask(spec, await self._look_up(spec), renew=True)
        except (Unavailable, DeadlineExceeded):
            raise
        except (ClaimsNotReady, BusError) as error:
            text = f"prepare dynamic resources: {error}"
            self._world.recorder.pod(spec, "Warning", REASON, f"Failed to prepare dynamic resources: {text}")
            raise ClaimsNotReady(text) from None

    async def adopt(self, spec: PodSpec) -> dict[str, tuple[str, ...]] | None:
        """Of a pod that runs already; quiet, and None when it has to be tried again. The device manager may have lost
        what it knew: it learns here what will have to be given back."""
        try:
            if not uses_claims(spec):
                return {}
            known = await self._known(spec)
            return known if known is not None else await self._ask(spec, await self._look_up(spec), renew=True)
        except (ClaimsNotReady, BusError):
            return None

    async def _known(self, spec: PodSpec) -> dict[str, tuple[str, ...]] | None:
        """What is prepared for a pod that runs already, though its claims may have left the API; None: not all is."""
        claims = tuple(PodClaim(item.entry, spec.namespace, item.claim, "") for item in entries(spec))
        try:
            return await self._ask(spec, claims, renew=False)
        except NotFound:
            return None

    async def _look_up(self, spec: PodSpec) -> tuple[PodClaim, ...]:
        found = await asyncio.gather(*(self._read(spec, item) for item in entries(spec)))
        return tuple(check(spec, item, claim) for item, claim in found)

    async def _read(self, spec: PodSpec, entry: Entry) -> tuple[Entry, dict[str, object]]:
        try:
            claim = await self._world.objects.read("ResourceClaim", spec.namespace, entry.claim)
        except NodeplaneError as error:
            raise ClaimsNotReady(f"fetch ResourceClaim {entry.claim}: {error}") from None
        if claim is None:
            raise ClaimsNotReady(
                f'fetch ResourceClaim {entry.claim}: resourceclaims.resource.k8s.io "{entry.claim}" not found'
            )
        return entry, claim

    async def _ask(self, spec: PodSpec, claims: tuple[PodClaim, ...], renew: bool) -> dict[str, tuple[str, ...]]:
        return await self._world.devices.prepare(
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
    """What device plugins and DRA drivers give to one container, together."""
    if not names:
        return grant
    grant = grant or ContainerGrant()
    return msgspec.structs.replace(grant, cdi_devices=tuple(dict.fromkeys((*grant.cdi_devices, *names))))
