"""All claims as they are: the newer of what the watch told and what an own write was answered with. Pure but for those
who wait for an own write to come back through the watch."""

import asyncio
from collections import defaultdict

from actors.scheduler.dra.ledger import Devices, Ledger
from protocols.dra.pods import EXTENDED_CLAIM, owner_pod, results_of
from protocols.dra.types import DeviceId
from protocols.kube.meta import Object, annotations_of, key_of, uid_of, version_of


def devices_of(claim: Object) -> Devices:
    """What it takes from others: admin access takes nothing."""
    return frozenset(
        DeviceId(str(each.get("driver")), str(each.get("pool")), str(each.get("device")))
        for each in results_of(claim)
        if not each.get("adminAccess")
    )


def order_of(claim: Object) -> int:
    """Its version as a number: newer is larger, within one resource."""
    version = version_of(claim)
    return int(version) if version.isascii() and version.isdigit() else 0


class ClaimStore:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._told: dict[str, Object] = {}
        self._assumed: dict[str, Object] = {}
        self._extended: defaultdict[str, set[str]] = defaultdict(set)
        """Pod uid -> claims made for its extended resources."""
        self._waiters: defaultdict[str, list[tuple[int, asyncio.Future[None]]]] = defaultdict(list)

    def get(self, key: str) -> Object | None:
        return self._assumed.get(key) or self._told.get(key)

    def allocated(self) -> int:
        return sum(1 for claim in self._told.values() if results_of(claim))

    def saw(self, claim: Object, ordered: bool = True) -> bool:
        """As the watch tells; True when devices got free."""
        key, uid = key_of(claim), uid_of(claim)
        self._told[key] = claim
        self._note(claim, key)
        freed = self._ledger.saw(uid, devices_of(claim), ordered)
        assumed = self._assumed.get(key)
        if assumed is not None and (uid_of(assumed) != uid or order_of(claim) >= order_of(assumed)):
            del self._assumed[key]
            # it is in the ledger before the promise ends, if it still holds anything
            freed = self._ledger.withdraw(uid_of(assumed)) or freed
        self._wake(key, order_of(claim))
        return freed

    def gone(self, claim: Object) -> bool:
        key = key_of(claim)
        self._told.pop(key, None)
        self._note(claim)
        freed = self._ledger.saw(uid_of(claim), frozenset())
        if self._assumed.pop(key, None) is not None:
            freed = self._ledger.withdraw(uid_of(claim)) or freed
        self._wake(key, order_of(claim))
        return freed

    def of_extended(self, pod: Object) -> list[Object]:
        """Claims made for the pod's extended resources."""
        return [self._told[key] for key in sorted(self._extended.get(uid_of(pod), ())) if key in self._told]

    def _note(self, claim: Object, key: str = "") -> None:
        owner = owner_pod(claim) if EXTENDED_CLAIM in annotations_of(claim) else None
        if owner is None:
            return
        if key:
            self._extended[owner[1]].add(key)
        elif (keys := self._extended.get(owner[1])) is not None:
            keys.discard(key_of(claim))
            if not keys:
                del self._extended[owner[1]]

    def assume(self, claim: Object) -> None:
        """The answer to an own write; nothing if the watch was faster."""
        key = key_of(claim)
        told = self._told.get(key)
        if told is None or uid_of(told) != uid_of(claim) or order_of(told) >= order_of(claim):
            self._ledger.withdraw(uid_of(claim))
        else:
            self._assumed[key] = claim

    async def echoed(self, claim: Object, timeout: float) -> None:
        """Until the watch told of this version or a later one. Raises TimeoutError."""
        key, wanted = key_of(claim), order_of(claim)
        told = self._told.get(key)
        if told is None or order_of(told) >= wanted or uid_of(told) != uid_of(claim):
            return
        await self._wait(key, wanted, timeout)

    async def arrived(self, claim: Object, timeout: float) -> None:
        """Until the watch told of a claim that was just made. Raises TimeoutError."""
        told = self._told.get(key_of(claim))
        if told is None or order_of(told) < order_of(claim):
            await self._wait(key_of(claim), order_of(claim), timeout)

    async def _wait(self, key: str, wanted: int, timeout: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[key].append((wanted, future))
        try:
            async with asyncio.timeout(timeout):
                await future
        finally:
            left = [each for each in self._waiters.pop(key, []) if each[1] is not future]
            if left:
                self._waiters[key] = left

    def _wake(self, key: str, order: int) -> None:
        for wanted, future in self._waiters.get(key, ()):
            if order >= wanted and not future.done():
                future.set_result(None)
