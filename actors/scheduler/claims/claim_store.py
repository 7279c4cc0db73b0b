"""Claims as the API shows them: what the watch reported, and responses of own writes that it has not reported yet."""

import asyncio
from collections import defaultdict

from actors.scheduler.claims.device_ledger import NOTHING, DeviceLedger
from protocols.dra.allocator.shares import held_by_results
from protocols.dra.pods import EXTENDED_CLAIM, owner_pod, results_of
from protocols.kinds import views
from protocols.kube.meta import annotations_of, key_of, uid_of, version_of


def order_of(claim: views.ResourceClaim) -> int:
    """Return the resourceVersion as a number. Larger is newer within one resource."""
    version = version_of(claim)
    return int(version) if version.isascii() and version.isdigit() else 0


class ClaimStore:
    """Claims by key; own writes are shown until the watch reports the same or a later version."""

    def __init__(self, ledger: DeviceLedger) -> None:
        self._ledger = ledger
        self._watched: dict[str, views.ResourceClaim] = {}
        self._assumed: dict[str, views.ResourceClaim] = {}
        self._allocated: dict[str, str] = {}
        """Key of each claim that holds devices, by uid."""
        self._extended: defaultdict[str, set[str]] = defaultdict(set)
        """Claims created for extended resources, by pod uid."""
        self._waiters: defaultdict[str, list[tuple[int, asyncio.Future[None]]]] = defaultdict(list)

    def get(self, key: str) -> views.ResourceClaim | None:
        return self._assumed.get(key) or self._watched.get(key)

    def holder(self, uid: str) -> views.ResourceClaim | None:
        """Return the watched claim of this uid if it holds devices."""
        return self._watched.get(self._allocated.get(uid, ""))

    def observe(self, claim: views.ResourceClaim, ordered: bool = True) -> bool:
        """Apply a claim from the watch. Return True if a device was freed."""
        key, uid = key_of(claim), uid_of(claim)
        self._watched[key] = claim
        self._note(claim, key)
        holdings = held_by_results(results_of(claim))
        if holdings:
            self._allocated[uid] = key
        else:
            self._allocated.pop(uid, None)
        freed = self._ledger.observe(uid, holdings, ordered)
        assumed = self._assumed.get(key)
        if assumed is not None and (uid_of(assumed) != uid or order_of(claim) >= order_of(assumed)):
            del self._assumed[key]
            # The ledger has its devices before the reservation ends, so none looks free in between.
            freed = self._ledger.release(uid_of(assumed)) or freed
        self._wake(key, order_of(claim))
        return freed

    def remove(self, claim: views.ResourceClaim) -> bool:
        key = key_of(claim)
        self._watched.pop(key, None)
        self._allocated.pop(uid_of(claim), None)
        self._note(claim)
        freed = self._ledger.observe(uid_of(claim), NOTHING)
        if self._assumed.pop(key, None) is not None:
            freed = self._ledger.release(uid_of(claim)) or freed
        self._wake(key, order_of(claim))
        return freed

    def of_extended(self, pod: views.Pod) -> list[views.ResourceClaim]:
        """Return the claims created for the pod's extended resources."""
        return [self._watched[key] for key in sorted(self._extended.get(uid_of(pod), ())) if key in self._watched]

    def _note(self, claim: views.ResourceClaim, key: str = "") -> None:
        owner = owner_pod(claim) if EXTENDED_CLAIM in annotations_of(claim) else None
        if owner is None:
            return
        if key:
            self._extended[owner[1]].add(key)
        elif (keys := self._extended.get(owner[1])) is not None:
            keys.discard(key_of(claim))
            if not keys:
                del self._extended[owner[1]]

    def assume(self, claim: views.ResourceClaim) -> None:
        """Record the response of an own write, unless the watch was faster."""
        key = key_of(claim)
        watched = self._watched.get(key)
        if watched is None or uid_of(watched) != uid_of(claim) or order_of(watched) >= order_of(claim):
            self._ledger.release(uid_of(claim))
        else:
            self._assumed[key] = claim

    def disprove(self, claim: views.ResourceClaim) -> None:
        """Forget the response of an own write that the API does not have: a restored backup lacks it.

        A watch that had not shown the write shows none of its version.
        """
        if (assumed := self._assumed.get(key_of(claim))) is not None and uid_of(assumed) == uid_of(claim):
            del self._assumed[key_of(claim)]
            self._ledger.release(uid_of(claim))

    async def wait_watched(self, claim: views.ResourceClaim, timeout: float) -> None:
        """Wait until the watch shows this version or a later one. Raises TimeoutError."""
        key, version = key_of(claim), order_of(claim)
        watched = self._watched.get(key)
        if watched is None or order_of(watched) >= version or uid_of(watched) != uid_of(claim):
            return
        await self._wait(key, version, timeout)

    async def wait_created(self, claim: views.ResourceClaim, timeout: float) -> None:
        """Wait until the watch shows a new claim. Raises TimeoutError."""
        watched = self._watched.get(key_of(claim))
        if watched is None or order_of(watched) < order_of(claim):
            await self._wait(key_of(claim), order_of(claim), timeout)

    async def _wait(self, key: str, version: int, timeout: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[key].append((version, future))
        try:
            async with asyncio.timeout(timeout):
                await future
        finally:
            left = [waiter for waiter in self._waiters.pop(key, []) if waiter[1] is not future]
            if left:
                self._waiters[key] = left

    def _wake(self, key: str, order: int) -> None:
        for version, future in self._waiters.get(key, ()):
            if order >= version and not future.done():
                future.set_result(None)
