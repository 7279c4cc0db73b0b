"""Write allocations and reservations of claims, and undo those that conflict with another claim.

Rules: a reservation stands until its write is known to be done or never to be. A pod is bound only once its claims came
back through the watch and no earlier claim holds one of their devices. A claim that needs no write is read instead:
pods and claims are followed apart, so a pod may be newer here than its claim, as after a restored backup.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import cast

from actors.scheduler.claims.claim_store import ClaimStore
from actors.scheduler.claims.device_ledger import DeviceLedger
from actors.scheduler.model.claim_demand import Assignment
from actors.scheduler.model.errors import ClaimChanged, DeviceConflict
from protocols.dra.allocator.extended import ExtendedClaim
from protocols.dra.pods import (
    allocation_of,
    consumers,
    deallocated,
    device_of,
    has_finalizer,
    is_pod,
    is_reserved_for,
    releasing,
    reserving,
    with_finalizer,
)
from protocols.kinds import views
from protocols.kinds.table import PODS, RESOURCECLAIMS
from protocols.kube.errors import suppress_status
from protocols.kube.meta import join_key, key_of, name_of, namespace_of, split_key, terminating, uid_of
from protocols.kubeclient.client import ApiAway, ApiClient, ApiError, find
from protocols.process.rates import backoff_delay

WATCH_TIMEOUT_S = 10.0
MAX_ATTEMPTS = 5
PAUSE_S, MAX_PAUSE_S = 0.05, 2.0


Pods = Callable[[str], views.Pod | None]
"""Returns a pod by its key, as the API shows it."""


def no_pod(key: str) -> views.Pod | None:
    """Default of `pods`: the scheduler knows no pod, so that nothing is checked against it."""
    return None


class ClaimWriter:
    """Writes what the scheduling cycle assigned; each error ends the reservations that it concerns."""

    def __init__(
        self, client: ApiClient, store: ClaimStore, ledger: DeviceLedger, log: logging.Logger, pods: Pods = no_pod
    ) -> None:
        self._client, self._store, self._ledger, self._log = client, store, ledger, log
        self._pods = pods

    async def assign(self, pod: views.Pod, assignments: tuple[Assignment, ...]) -> None:
        """Raises ClaimChanged, DeviceConflict, ApiError, ApiAway or TimeoutError; the pod must not be bound then."""
        written = []
        left = list(assignments)
        try:
            while left:
                written.append(await self._write(pod, left[0]))
                left.pop(0)
        finally:
            for assignment in left[1:]:  # the first one has ended its reservation itself
                self._ledger.release(assignment.uid)
        for claim in written:
            await self._store.wait_watched(claim, WATCH_TIMEOUT_S)
        await self._verify(pod, tuple(written))

    async def make(self, pod: views.Pod, assignment: Assignment, extended: ExtendedClaim) -> Assignment:
        """Create the claim for a pod's extended resources. After an error the next attempt finds it, if it exists.

        The caller then ends the reservations. Raises ApiError, ApiAway or TimeoutError.
        """
        body = extended.as_object(pod)
        claim = cast("views.ResourceClaim", await self._client.create(RESOURCECLAIMS, body, namespace_of(pod)))
        await self._store.wait_created(claim, WATCH_TIMEOUT_S)
        self._ledger.transfer(assignment.uid, uid_of(claim))
        return Assignment(key_of(claim), uid_of(claim), assignment.allocation)

    async def set_pod_status(self, pod: views.Pod, extended: ExtendedClaim, key: str) -> None:
        """Set pod.status.extendedResourceClaimStatus: the last write before the binding; it makes the claim valid."""
        status = extended.status(split_key(key)[1])
        body = {"metadata": {"uid": uid_of(pod)}, "status": {"extendedResourceClaimStatus": status}}
        await self._client.patch(PODS, name_of(pod), namespace_of(pod), body, kind="strategic", subresource="status")

    async def delete(self, claim: views.ResourceClaim, pod: str) -> None:
        """Deallocate and delete a claim that was created in vain."""
        if terminating(claim) or not await self.deallocate(claim, pod):
            return
        with suppress_status(404, 409):
            await self._client.delete(RESOURCECLAIMS, name_of(claim), namespace_of(claim), uid=uid_of(claim))

    async def _verify(self, pod: views.Pod, claims: tuple[views.ResourceClaim, ...]) -> None:
        """Raise DeviceConflict after undoing claims that lost a device to an earlier claim."""
        for claim in claims:
            known = self._store.get(key_of(claim))
            if known is None or uid_of(known) != uid_of(claim) or not is_reserved_for(known, uid_of(pod)):
                raise ClaimChanged(f"claim {key_of(claim)} changed in the meantime")
        lost = [claim for claim in claims if self._has_conflict(claim)]
        for claim in lost:
            self._log.warning("claim lost a device to an earlier claim, undoing it claim=%s", key_of(claim))
            await self.undo(claim, uid_of(pod))
        if lost:
            raise DeviceConflict(
                f"claim {key_of(lost[0])} lost a device to an earlier claim; the allocation was undone"
            )

    def _has_conflict(self, claim: views.ResourceClaim) -> bool:
        return bool(self._ledger.conflicting_claims(uid_of(claim), self._is_settled(claim)))

    def _is_settled(self, claim: views.ResourceClaim) -> bool:
        """Return True if a pod that uses the claim is bound."""
        for consumer in filter(is_pod, consumers(self._store.get(key_of(claim)) or claim)):
            pod = self._pods(join_key(namespace_of(claim), str(consumer.get("name"))))
            if pod is not None and uid_of(pod) == consumer.get("uid") and (pod.get("spec") or {}).get("nodeName"):
                return True
        return False

    async def undo(self, claim: views.ResourceClaim, pod: str) -> None:
        """Remove the pod's reservation, and with the last one the allocation.

        Only if the claim still conflicts: another scheduler may have reallocated it and bind the pod on that. Raises
        ApiError, ApiAway, TimeoutError.
        """
        for _ in range(MAX_ATTEMPTS):
            fresh = await self._read(claim)
            if fresh is None or not (is_reserved_for(fresh, pod) or (allocation_of(fresh) and not consumers(fresh))):
                return
            await self._store.wait_watched(fresh, WATCH_TIMEOUT_S)
            if not self._has_conflict(fresh):
                return
            if await self._put_status(releasing(fresh, frozenset((pod,)))) is not None:
                return

    async def release(self, claim: views.ResourceClaim, pod: str, still: Callable[[views.ResourceClaim], bool]) -> bool:
        """Remove the pod's reservation while `still` holds, and with the last one the allocation.

        Return True if it was removed. Raises ApiError or ApiAway.
        """
        for _ in range(MAX_ATTEMPTS):
            fresh = await self._read(claim)
            if fresh is None or not still(fresh) or (consumers(fresh) and not is_reserved_for(fresh, pod)):
                return False
            if await self._put_status(releasing(fresh, frozenset((pod,)))) is not None:
                return True
        return False

    async def leave(self, claim: views.ResourceClaim, pod: str) -> None:
        """Remove the pod's reservation, with the last one the allocation, and wait until the watch shows it.

        Raises ApiError, ApiAway or TimeoutError.
        """
        for _ in range(MAX_ATTEMPTS):
            fresh = await self._read(claim)
            if fresh is None or not is_reserved_for(fresh, pod):
                return
            if (written := await self._put_status(releasing(fresh, frozenset((pod,))))) is not None:
                await self._store.wait_watched(written, WATCH_TIMEOUT_S)
                return

    async def deallocate(self, claim: views.ResourceClaim, pod: str) -> bool:
        """Deallocate a claim unless another pod may use it. Return False if one may."""
        fresh = await self._read(claim)
        if fresh is None or any(consumer.get("uid") != pod for consumer in consumers(fresh)):
            return False
        return await self._put_status(deallocated(fresh)) is not None

    async def _write(self, pod: views.Pod, assignment: Assignment) -> views.ResourceClaim:
        """Write one assignment, until it is done or known never to be."""
        claim = self._store.get(assignment.key)
        uncertain = False
        tries = failures = 0
        while True:
            try:
                claim = await self._write_once(pod, assignment, claim)
            except ApiAway:
                uncertain = True  # it may have been written, or still be
            except ApiError as error:
                if error.code < 500 and error.code != 409:
                    self._ledger.release(assignment.uid)
                    raise
                uncertain = uncertain or error.code >= 500
                tries += 1
            except Exception:  # should it be written all the same, `_verify` undoes what lost its devices
                self._ledger.release(assignment.uid)
                raise
            else:
                self._store.assume(claim)
                return claim
            if tries >= MAX_ATTEMPTS and not uncertain:
                self._ledger.release(assignment.uid)
                raise ClaimChanged(f"claim {assignment.key} changed too often in the meantime")
            try:
                failures += 1
                pause = backoff_delay(failures, PAUSE_S, MAX_PAUSE_S)
                claim, uncertain = await self._reread(assignment, uncertain, pause)
            except Exception:
                self._ledger.release(assignment.uid)
                raise

    async def _reread(
        self, assignment: Assignment, uncertain: bool, pause: float
    ) -> tuple[views.ResourceClaim | None, bool]:
        """Return the current claim, retrying while the API does not answer."""
        while True:
            await asyncio.sleep(pause)
            try:
                namespace, name = split_key(assignment.key)
                claim = await self._client.get(RESOURCECLAIMS, name, namespace)
                return cast("views.ResourceClaim", claim), uncertain
            except ApiAway:
                continue
            except ApiError as error:
                if error.code == 404:
                    return None, False
                if error.code < 500:
                    raise

    async def _write_once(
        self, pod: views.Pod, assignment: Assignment, claim: views.ResourceClaim | None
    ) -> views.ResourceClaim:
        if claim is None or uid_of(claim) != assignment.uid or terminating(claim):
            raise ClaimChanged(f"claim {assignment.key} got deleted in the meantime")
        known = allocation_of(claim)
        if known is not None and assignment.allocation is not None and not _is_same(known, assignment.allocation):
            raise ClaimChanged(f"claim {assignment.key} got allocated elsewhere in the meantime")
        if known is None and assignment.allocation is None:
            raise ClaimChanged(f"claim {assignment.key} is not allocated any more")
        if is_reserved_for(claim, uid_of(pod)):
            return await self._confirmed(pod, claim)
        if known is None and not has_finalizer(claim):
            claim = await self._update(with_finalizer(claim))
        body = reserving(claim, pod, assignment.allocation if known is None else None)
        return await self._update(body, "status")

    async def _confirmed(self, pod: views.Pod, claim: views.ResourceClaim) -> views.ResourceClaim:
        """Return the claim as the API has it. Raises ClaimChanged if it is not the pod's with these devices."""
        fresh, known = await self._read(claim), allocation_of(claim)
        if fresh is not None and is_reserved_for(fresh, uid_of(pod)):
            stored = allocation_of(fresh)
            if known is not None and stored is not None and _is_same(known, stored):
                return fresh
        self._store.disprove(claim)
        raise ClaimChanged(f"claim {key_of(claim)} changed in the meantime")

    async def _read(self, claim: views.ResourceClaim) -> views.ResourceClaim | None:
        fresh = await find(self._client, RESOURCECLAIMS, name_of(claim), namespace_of(claim))
        return cast("views.ResourceClaim", fresh) if fresh is not None and uid_of(fresh) == uid_of(claim) else None

    async def _put_status(self, claim: views.ResourceClaim) -> views.ResourceClaim | None:
        """Return None after a conflict."""
        try:
            return await self._update(claim, "status")
        except ApiError as error:
            if error.code in (404, 409):
                return None
            raise

    async def _update(self, claim: views.ResourceClaim, subresource: str = "") -> views.ResourceClaim:
        return await self._client.update(RESOURCECLAIMS, claim, namespace_of(claim), subresource)


def _is_same(one: views.AllocationResult, other: views.AllocationResult) -> bool:
    """Return True for the same devices, shares and requests: our own write whose response was lost."""
    return _devices(one) == _devices(other)


def _devices(allocation: views.AllocationResult) -> list[tuple[object, ...]]:
    results = (allocation.get("devices") or {}).get("results") or ()
    return [(result.get("request"), *device_of(result), result.get("shareID")) for result in results]
