"""ResourceClaims of a pod: read from the API and prepared by the device manager before the sandbox."""

import asyncio
from typing import cast

from actors.podworker.model.dependencies import Dependencies
from protocols.bus import BusError, DeadlineExceeded, NotFound, Unavailable
from protocols.errors import NodeplaneError
from protocols.kinds import views
from protocols.lifecycle.errors import ClaimsNotReady
from protocols.lifecycle.pods.claims import ClaimEntry, check, entries, references, uses_claims
from protocols.lifecycle.pods.types import PodSpec
from protocols.lifecycle.status.events import claims_not_prepared
from protocols.messages.devices import PodClaim, PrepareClaims
from protocols.trace import span


class ClaimPreparation:
    """Prepares and adopts the claims of one pod."""

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
            self._deps.recorder.pod(spec, *claims_not_prepared(text))
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
        pairs = await asyncio.gather(*(self._read(spec, item) for item in entries(spec)))
        return tuple(check(spec, item, claim) for item, claim in pairs)

    async def _read(self, spec: PodSpec, entry: ClaimEntry) -> tuple[ClaimEntry, views.ResourceClaim | None]:
        try:
            claim = await self._deps.objects.read("ResourceClaim", spec.namespace, entry.claim)
        except NodeplaneError as error:
            raise ClaimsNotReady(f"fetch ResourceClaim {entry.claim}: {error}") from None
        return entry, cast("views.ResourceClaim | None", claim)

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
