"""Claims as the API shows them, and the devices they hold or reserve.

Two claims cannot both keep a device. Their allocations are two objects, so resourceVersions cannot keep them apart; the
order of the watch does, since every reader sees the same one. A claim that holds a device an earlier claim holds has
lost it. Its writer knows once its own write came back through the watch, because everything earlier came before it.
"""

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Iterable

from protocols.dra.pods import EXTENDED_CLAIM, owner_pod, results_of
from protocols.dra.types import DeviceId
from protocols.kube.meta import Object, annotations_of, key_of, uid_of, version_of

UNKNOWN = 0
"""Order of claims that were listed, not watched: they may precede anything."""
DynamicResources = frozenset[DeviceId]
NOTHING: DynamicResources = frozenset()


class DeviceLedger:
    """Devices that claims hold in the watch (`observe`), and devices reserved by writes not watched yet."""

    def __init__(self) -> None:
        self._held: defaultdict[DeviceId, dict[str, int]] = defaultdict(dict)
        self._by_claim: dict[str, DynamicResources] = {}
        self._reserved_by: dict[DeviceId, str] = {}
        self._reservations: dict[str, DynamicResources] = {}
        self._orders = itertools.count(UNKNOWN + 1)
        self._revisions: dict[tuple[str, str], int] = {}

    def __contains__(self, device: object) -> bool:
        return device in self._held or device in self._reserved_by

    def __len__(self) -> int:
        return len(self._held.keys() | self._reserved_by.keys())

    def revisions(self, pools: Iterable[tuple[str, str]]) -> int:
        """Return a number that grows whenever a device of these pools is taken or freed."""
        known, total = self._revisions, 0
        for pool in pools:
            total += known.get(pool, 0)
        return total

    def observe(self, claim: str, devices: DynamicResources, ordered: bool = True) -> bool:
        """Record the devices a claim holds. Return True if a device was freed."""
        before = self._by_claim.get(claim, NOTHING)
        order = next(self._orders) if ordered else UNKNOWN
        for device in devices - before:
            self._held[device][claim] = order
            self._touch(device)
        for device in before - devices:
            self._drop(device, claim)
        if devices:
            self._by_claim[claim] = devices
        else:
            self._by_claim.pop(claim, None)
        return bool(before - devices)

    def reserve(self, claim: str, devices: DynamicResources) -> bool:
        """Reserve all devices for a claim, or none if one is taken."""
        if any(device in self for device in devices):
            return False
        self._reservations[claim] = devices
        for device in devices:
            self._reserved_by[device] = claim
            self._touch(device)
        return True

    def reserved(self, claim: str) -> bool:
        return claim in self._reservations

    def release(self, claim: str) -> bool:
        """End a reservation, because its write was watched or failed. Return True if a device was freed."""
        freed = False
        for device in self._reservations.pop(claim, NOTHING):
            del self._reserved_by[device]
            self._touch(device)
            freed = freed or device not in self._held
        return freed

    def transfer(self, claim: str, to: str) -> None:
        """Move a reservation to the claim's final uid."""
        devices = self._reservations[to] = self._reservations.pop(claim)
        for device in devices:
            self._reserved_by[device] = to

    def conflicting_claims(self, claim: str) -> set[str]:
        """Return the claims that held one of the claim's devices before it, or may have."""
        found = set()
        for device in self._by_claim.get(claim, NOTHING):
            holders = self._held[device]
            own_order = holders[claim]
            found |= {
                other for other, order in holders.items() if other != claim and (order < own_order or not own_order)
            }
        return found

    def _drop(self, device: DeviceId, claim: str) -> None:
        holders = self._held[device]
        holders.pop(claim, None)
        if not holders:
            del self._held[device]
        self._touch(device)

    def _touch(self, device: DeviceId) -> None:
        pool = (device.driver, device.pool)
        self._revisions[pool] = self._revisions.get(pool, 0) + 1


def devices_of(claim: Object) -> DynamicResources:
    """Return the devices that the claim occupies; admin access occupies none."""
    return frozenset(
        DeviceId(str(each.get("driver")), str(each.get("pool")), str(each.get("device")))
        for each in results_of(claim)
        if not each.get("adminAccess")
    )


def order_of(claim: Object) -> int:
    """Return the resourceVersion as a number. Larger is newer within one resource."""
    version = version_of(claim)
    return int(version) if version.isascii() and version.isdigit() else 0


class ClaimStore:
    def __init__(self, ledger: DeviceLedger) -> None:
        self._ledger = ledger
        self._watched: dict[str, Object] = {}
        self._assumed: dict[str, Object] = {}
        self._extended: defaultdict[str, set[str]] = defaultdict(set)
        """Claims created for extended resources, by pod uid."""
        self._waiters: defaultdict[str, list[tuple[int, asyncio.Future[None]]]] = defaultdict(list)

    def get(self, key: str) -> Object | None:
        return self._assumed.get(key) or self._watched.get(key)

    def allocated(self) -> int:
        return sum(1 for claim in self._watched.values() if results_of(claim))

    def observe(self, claim: Object, ordered: bool = True) -> bool:
        """Apply a claim from the watch. Return True if a device was freed."""
        key, uid = key_of(claim), uid_of(claim)
        self._watched[key] = claim
        self._note(claim, key)
        freed = self._ledger.observe(uid, devices_of(claim), ordered)
        assumed = self._assumed.get(key)
        if assumed is not None and (uid_of(assumed) != uid or order_of(claim) >= order_of(assumed)):
            del self._assumed[key]
            # The ledger has its devices before the reservation ends, so none looks free in between.
            freed = self._ledger.release(uid_of(assumed)) or freed
        self._wake(key, order_of(claim))
        return freed

    def remove(self, claim: Object) -> bool:
        key = key_of(claim)
        self._watched.pop(key, None)
        self._note(claim)
        freed = self._ledger.observe(uid_of(claim), frozenset())
        if self._assumed.pop(key, None) is not None:
            freed = self._ledger.release(uid_of(claim)) or freed
        self._wake(key, order_of(claim))
        return freed

    def of_extended(self, pod: Object) -> list[Object]:
        """Return the claims created for the pod's extended resources."""
        return [self._watched[key] for key in sorted(self._extended.get(uid_of(pod), ())) if key in self._watched]

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
        """Record the response of an own write, unless the watch was faster."""
        key = key_of(claim)
        watched = self._watched.get(key)
        if watched is None or uid_of(watched) != uid_of(claim) or order_of(watched) >= order_of(claim):
            self._ledger.release(uid_of(claim))
        else:
            self._assumed[key] = claim

    async def wait_watched(self, claim: Object, timeout: float) -> None:
        """Wait until the watch shows this version or a later one. Raises TimeoutError."""
        key, version = key_of(claim), order_of(claim)
        watched = self._watched.get(key)
        if watched is None or order_of(watched) >= version or uid_of(watched) != uid_of(claim):
            return
        await self._wait(key, version, timeout)

    async def wait_created(self, claim: Object, timeout: float) -> None:
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
            left = [each for each in self._waiters.pop(key, []) if each[1] is not future]
            if left:
                self._waiters[key] = left

    def _wake(self, key: str, order: int) -> None:
        for version, future in self._waiters.get(key, ()):
            if order >= version and not future.done():
                future.set_result(None)
