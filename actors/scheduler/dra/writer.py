"""Writes allocations and reservations, and takes back what turns out to be another's.

Rules: a promise stands until its write is known to be done or never to be; a pod is bound only once its claims came
back through the watch and no earlier claim holds one of their devices.
"""

import asyncio
import logging

from actors.scheduler.dra.claims import ClaimStore
from actors.scheduler.dra.errors import Contested, Overtaken
from actors.scheduler.dra.extended import ExtendedClaim
from actors.scheduler.dra.ledger import Ledger
from actors.scheduler.dra.types import Assignment
from protocols.dra.pods import (
    allocation_of,
    consumers,
    deallocated,
    has_finalizer,
    releasing,
    reserved_for,
    reserving,
    with_finalizer,
)
from protocols.kube.client import ApiAway, ApiClient, ApiError
from protocols.kube.meta import Object, key_of, name_of, namespace_of, split_key, terminating, uid_of
from protocols.kube.resources import PODS, RESOURCECLAIMS

ECHO_S = 10.0
TRIES = 5
PAUSE_S, LONGEST_PAUSE_S = 0.05, 2.0


class ClaimWriter:
    def __init__(self, client: ApiClient, store: ClaimStore, ledger: Ledger, log: logging.Logger) -> None:
        self._client, self._store, self._ledger, self._log = client, store, ledger, log

    async def assign(self, pod: Object, assignments: tuple[Assignment, ...]) -> None:
        """Raises Overtaken, Contested, ApiError, ApiAway, TimeoutError; the pod must not be bound then."""
        written = []
        left = list(assignments)
        try:
            while left:
                written.append(await self._write(pod, left[0]))
                left.pop(0)
        finally:
            for each in left[1:]:  # the first one settled its promise itself
                self._ledger.withdraw(each.uid)
        for claim in written:
            await self._store.echoed(claim, ECHO_S)
        await self._verify(pod, tuple(written))

    async def make(self, pod: Object, wanted: Assignment, extended: ExtendedClaim) -> Assignment:
        """The claim for a pod's extended resources. Whatever goes wrong, one that was made is found by the next try."""
        try:
            claim = await self._client.create(RESOURCECLAIMS, extended.as_object(pod), namespace_of(pod))
            await self._store.arrived(claim, ECHO_S)
        except (ApiAway, ApiError, TimeoutError):
            self._ledger.withdraw(wanted.uid)
            raise
        self._ledger.hand_over(wanted.uid, uid_of(claim))
        return Assignment(key_of(claim), uid_of(claim), wanted.allocation)

    async def write_down(self, pod: Object, extended: ExtendedClaim, key: str) -> None:
        """Last before the binding: only then the claim is the pod's."""
        status = extended.status(split_key(key)[1])
        body = {"metadata": {"uid": uid_of(pod)}, "status": {"extendedResourceClaimStatus": status}}
        await self._client.patch(PODS, name_of(pod), namespace_of(pod), body, kind="strategic", subresource="status")

    async def discard(self, claim: Object, pod: str) -> None:
        """Frees and deletes a claim that was made here for nothing."""
        if terminating(claim) or not await self.deallocate(claim, pod):
            return
        try:
            await self._client.delete(RESOURCECLAIMS, name_of(claim), namespace_of(claim), uid=uid_of(claim))
        except ApiError as error:
            if error.code not in (404, 409):
                raise

    async def _verify(self, pod: Object, claims: tuple[Object, ...]) -> None:
        """Raises Contested once what was lost is given back, if the API took it."""
        for claim in claims:
            known = self._store.get(key_of(claim))
            if known is None or uid_of(known) != uid_of(claim) or not reserved_for(known, uid_of(pod)):
                raise Overtaken(f"claim {key_of(claim)} changed in the meantime")
        lost = [claim for claim in claims if self._ledger.rivals(uid_of(claim))]
        for claim in lost:
            self._log.warning("claim %s got a device that another claim has; it is given back", key_of(claim))
            await self.give_back(claim, uid_of(pod))
        if lost:
            raise Contested(f"claim {key_of(lost[0])} got a device that another claim has; it was given back")

    async def give_back(self, claim: Object, pod: str) -> None:
        """The pod's reservation; with the last one the allocation too. Only of what is lost: another scheduler may have
        given it back and allocated it anew, and bind the pod on that. Raises ApiError, ApiAway, TimeoutError."""
        for _ in range(TRIES):
            fresh = await self._read(claim)
            if fresh is None or not (reserved_for(fresh, pod) or (allocation_of(fresh) and not consumers(fresh))):
                return
            await self._store.echoed(fresh, ECHO_S)
            if not self._ledger.rivals(uid_of(fresh)):
                return
            if await self._put_status(releasing(fresh, frozenset((pod,)))) is not None:
                return

    async def deallocate(self, claim: Object, pod: str) -> bool:
        """Frees a claim that nobody but the pod may use; False if somebody does."""
        fresh = await self._read(claim)
        if fresh is None or any(each.get("uid") != pod for each in consumers(fresh)):
            return False
        return await self._put_status(deallocated(fresh)) is not None

    async def _write(self, pod: Object, wanted: Assignment) -> Object:
        """Until it is done, or known never to be."""
        claim = self._store.get(wanted.key)
        unsure = False
        tries, pause = 0, PAUSE_S
        while True:
            try:
                claim = await self._step(pod, wanted, claim)
            except ApiAway:
                unsure = True  # it may have been written, or be written yet
            except ApiError as error:
                if error.code < 500 and error.code != 409:
                    self._ledger.withdraw(wanted.uid)
                    raise
                unsure = unsure or error.code >= 500
                tries += 1
            except Overtaken:
                self._ledger.withdraw(wanted.uid)
                raise
            else:
                self._store.assume(claim)
                return claim
            if tries >= TRIES and not unsure:
                self._ledger.withdraw(wanted.uid)
                raise Overtaken(f"claim {wanted.key} changed too often in the meantime")
            try:
                claim, unsure = await self._again(wanted, unsure, pause)
            except ApiError:
                self._ledger.withdraw(wanted.uid)
                raise
            pause = min(LONGEST_PAUSE_S, pause * 2)

    async def _again(self, wanted: Assignment, unsure: bool, pause: float) -> tuple[Object | None, bool]:
        """The claim as it is now; while nobody can tell, it is asked for on and on."""
        while True:
            await asyncio.sleep(pause)
            try:
                namespace, name = split_key(wanted.key)
                return await self._client.get(RESOURCECLAIMS, name, namespace), unsure
            except ApiAway:
                continue
            except ApiError as error:
                if error.code == 404:
                    return None, False
                if error.code < 500:
                    raise

    async def _step(self, pod: Object, wanted: Assignment, claim: Object | None) -> Object:
        if claim is None or uid_of(claim) != wanted.uid or terminating(claim):
            raise Overtaken(f"claim {wanted.key} got deleted in the meantime")
        known = allocation_of(claim)
        if known is not None and wanted.allocation is not None and not _same(known, wanted.allocation):
            raise Overtaken(f"claim {wanted.key} got allocated elsewhere in the meantime")
        if known is None and wanted.allocation is None:
            raise Overtaken(f"claim {wanted.key} is not allocated any more")
        if reserved_for(claim, uid_of(pod)):
            return claim
        if known is None and not has_finalizer(claim):
            claim = await self._client.update(RESOURCECLAIMS, with_finalizer(claim), namespace_of(claim))
        body = reserving(claim, pod, wanted.allocation if known is None else None)
        return await self._client.update(RESOURCECLAIMS, body, namespace_of(claim), "status")

    async def _read(self, claim: Object) -> Object | None:
        try:
            fresh = await self._client.get(RESOURCECLAIMS, name_of(claim), namespace_of(claim))
        except ApiError as error:
            if error.code == 404:
                return None
            raise
        return fresh if uid_of(fresh) == uid_of(claim) else None

    async def _put_status(self, claim: Object) -> Object | None:
        """None after a conflict."""
        try:
            return await self._client.update(RESOURCECLAIMS, claim, namespace_of(claim), "status")
        except ApiError as error:
            if error.code in (404, 409):
                return None
            raise


def _same(one: Object, other: Object) -> bool:
    """The same devices for the same requests: our own write, when its answer was lost."""
    return _devices(one) == _devices(other)


def _devices(allocation: Object) -> list[tuple[object, ...]]:
    parts = ("request", "driver", "pool", "device")
    return [tuple(each.get(part) for part in parts) for each in (allocation.get("devices") or {}).get("results") or ()]
