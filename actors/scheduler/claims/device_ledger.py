"""Devices, and shares of devices, that claims hold or reserve. Pure.

Two claims cannot both keep a device, or more of its capacity than there is. Their allocations are two objects, so
resourceVersions cannot keep them apart; the order of the watch does, since every reader sees the same one. A claim that
holds what earlier claims hold has lost it. Its writer knows once its own write came back through the watch, because
everything earlier came before it.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import msgspec

from protocols.dra.allocator.shares import added
from protocols.dra.allocator.types import AllocatedState, Amounts, Holdings
from protocols.dra.types import DeviceId, PoolId

UNKNOWN = 0
"""Order of claims that were listed, not watched: they may precede anything."""
NOTHING: Holdings = {}
Capacities = Callable[[DeviceId], Amounts | None]
"""Returns the total of each capacity as patched; None for a device that is not published."""


class Hold(msgspec.Struct, frozen=True):
    """One claim's use of one device."""

    amounts: Amounts | None
    """None = the whole device."""
    order: int


class Use(msgspec.Struct):
    """All use of one device."""

    held: dict[str, Hold] = msgspec.field(default_factory=dict)
    reserved: dict[str, Amounts | None] = msgspec.field(default_factory=dict)
    """Claims whose writes the watch has not shown."""
    consumed: Counter[str] = msgspec.field(default_factory=Counter)
    """Consumption of shares that are held."""
    wholes: int = 0
    """Claims that hold the whole device; more than one while rivals have not undone their writes."""

    @property
    def is_whole(self) -> bool:
        return self.wholes > 0 or None in self.reserved.values()

    def total(self) -> Amounts:
        """Return the consumption of shares that are held or reserved; a claim that does both counts once."""
        if not self.reserved:
            return self.consumed
        total = Counter(self.consumed)
        for claim, amounts in self.reserved.items():
            if claim not in self.held:
                total.update(amounts or {})
        return total

    def hold(self, claim: str, hold: Hold) -> None:
        self.drop(claim)
        self.held[claim] = hold
        self.wholes += hold.amounts is None
        self.consumed.update(hold.amounts or {})

    def drop(self, claim: str) -> None:
        hold = self.held.pop(claim, None)
        if hold is not None:
            self.wholes -= hold.amounts is None
            self.consumed.subtract(hold.amounts or {})


class DeviceLedger:
    """Devices held by claims in the watch (`observe`), and those reserved by writes not watched yet."""

    def __init__(self, capacities: Capacities = lambda device: None) -> None:
        self._capacities = capacities
        self._uses: dict[DeviceId, Use] = {}
        self._by_claim: dict[str, Holdings] = {}
        self._reservations: dict[str, Holdings] = {}
        self._orders = itertools.count(UNKNOWN + 1)
        self._revisions: dict[tuple[str, str], int] = {}
        self._freed: dict[tuple[str, str], int] = {}
        self.touched: Callable[[tuple[str, str]], None] = lambda pool: None
        """Called when a device of a pool was taken or freed."""

    def __contains__(self, device: object) -> bool:
        return device in self._uses

    def __len__(self) -> int:
        return len(self._uses)

    def in_use(self) -> Counter[PoolId]:
        """Return the number of devices in use, as a whole or in shares, by pool."""
        return Counter(PoolId(device.driver, device.pool) for device in self._uses)

    def consumed(self, device: DeviceId) -> Amounts | None:
        """Return what shares of the device consume, reservations included; None if it is in use as a whole."""
        use = self._uses.get(device)
        if use is None:
            return {}
        return None if use.is_whole else use.total()

    def holders(self, device: DeviceId) -> Iterable[str]:
        """Return the claims that hold the device, or shares of it, in the watch."""
        use = self._uses.get(device)
        return use.held if use is not None else ()

    def without(self, claims: frozenset[str]) -> "_LedgerWithout":
        """Return the ledger as it would be if these claims held nothing in the watch."""
        return _LedgerWithout(self._uses, claims)

    def revisions(self, pools: Iterable[tuple[str, str]]) -> int:
        """Return a number that grows whenever a device of these pools is taken or freed."""
        known, total = self._revisions, 0
        for pool in pools:
            total += known.get(pool, 0)
        return total

    def freed(self, pools: Iterable[tuple[str, str]]) -> int:
        """Return a number that grows whenever a device of these pools is freed."""
        return sum(self._freed.get(pool, 0) for pool in pools)

    def observe(self, claim: str, holdings: Holdings, ordered: bool = True) -> bool:
        """Record what a claim holds. Return True if a device or a share was freed."""
        before = self._by_claim.get(claim, NOTHING)
        order = next(self._orders) if ordered else UNKNOWN
        gone = [device for device, amounts in before.items() if device not in holdings or holdings[device] != amounts]
        for device in gone:
            self._drop(device, claim)
        for device, amounts in holdings.items():
            if device not in before or before[device] != amounts:
                self._hold(device, claim, amounts, order)
        if holdings:
            self._by_claim[claim] = holdings
        else:
            self._by_claim.pop(claim, None)
        return bool(gone)

    def is_available(self, holdings: Holdings) -> bool:
        """Return True if a claim that holds nothing yet can have all of this."""
        return all(self._is_available(device, amounts) for device, amounts in holdings.items())

    def reserve(self, claim: str, holdings: Holdings) -> bool:
        """Reserve everything for a claim, or nothing if something is taken."""
        if not self.is_available(holdings):
            return False
        self._reservations[claim] = holdings
        for device, amounts in holdings.items():
            self._use(device).reserved[claim] = amounts
            self._touch(device)
        return True

    def is_reserved(self, claim: str) -> bool:
        return claim in self._reservations

    def release(self, claim: str) -> bool:
        """End a reservation, because its write was watched or failed. Return True if a device or share was freed."""
        freed = False
        for device in self._reservations.pop(claim, NOTHING):
            use = self._uses[device]
            del use.reserved[claim]
            self._touch(device)
            if claim not in use.held:
                self._count_freed(device)
                freed = True
            self._tidy(device)
        return freed

    def transfer(self, claim: str, to: str) -> None:
        """Move a reservation to the claim's final uid."""
        holdings = self._reservations[to] = self._reservations.pop(claim)
        for device in holdings:
            reserved = self._uses[device].reserved
            reserved[to] = reserved.pop(claim)

    def conflicting_claims(self, claim: str, settled: bool = False) -> set[str]:
        """Return the claims that held what this claim holds before it, or may have.

        A `settled` claim was verified by the scheduler that bound a pod with it. Its shares stay valid, as capacity
        may have been lowered since.
        """
        claims: set[str] = set()
        for device in self._by_claim.get(claim, NOTHING):
            claims |= self._conflicts(device, claim, settled)
        return claims

    def _conflicts(self, device: DeviceId, claim: str, settled: bool) -> set[str]:
        use = self._uses[device]
        holders = use.held
        mine = holders[claim]
        if not use.wholes and not self._is_exceeded(device, use.consumed, dict.fromkeys(mine.amounts or {}, 0)):
            return set()
        earlier = {
            other: hold
            for other, hold in holders.items()
            if other != claim and (hold.order < mine.order or not mine.order)
        }
        whole = {other for other, hold in earlier.items() if mine.amounts is None or hold.amounts is None}
        if mine.amounts is None or whole or settled:
            return whole
        consumed: Counter[str] = Counter()
        for hold in earlier.values():
            consumed.update(hold.amounts or {})
        return set(earlier) if self._is_exceeded(device, consumed, mine.amounts) else set()

    def _is_exceeded(self, device: DeviceId, consumed: Mapping[str, int], more: Amounts) -> bool:
        """Return True if there is less of a capacity than this; a device that is not published has no limits."""
        capacity = self._capacities(device)
        if capacity is None:
            return False
        return any(consumed.get(name, 0) + amount > capacity.get(name, 0) for name, amount in more.items())

    def _is_available(self, device: DeviceId, amounts: Amounts | None) -> bool:
        use = self._uses.get(device)
        if amounts is None:
            return use is None
        if use is None:
            return not self._is_exceeded(device, {}, amounts)
        return not use.is_whole and not self._is_exceeded(device, use.total(), amounts)

    def _hold(self, device: DeviceId, claim: str, amounts: Amounts | None, order: int) -> None:
        self._use(device).hold(claim, Hold(amounts, order))
        self._touch(device)

    def _drop(self, device: DeviceId, claim: str) -> None:
        self._uses[device].drop(claim)
        self._count_freed(device)
        self._touch(device)
        self._tidy(device)

    def _use(self, device: DeviceId) -> Use:
        return self._uses.setdefault(device, Use())

    def _tidy(self, device: DeviceId) -> None:
        use = self._uses[device]
        if not use.held and not use.reserved:
            del self._uses[device]

    def _count_freed(self, device: DeviceId) -> None:
        pool = (device.driver, device.pool)
        self._freed[pool] = self._freed.get(pool, 0) + 1

    def _touch(self, device: DeviceId) -> None:
        pool = (device.driver, device.pool)
        self._revisions[pool] = self._revisions.get(pool, 0) + 1
        self.touched(pool)


class WithKept:
    """Devices in use, and what is kept for nominated pods."""

    def __init__(self, used: AllocatedState, kept: Holdings) -> None:
        self._used, self._kept = used, kept

    def __contains__(self, device: object) -> bool:
        return device in self._kept or device in self._used

    def consumed(self, device: DeviceId) -> Amounts | None:
        used, kept = self._used.consumed(device), self._kept.get(device, {})
        return None if used is None or kept is None else added(used, kept)


def with_kept(used: AllocatedState, kept: Holdings) -> AllocatedState:
    """Return the devices in use, with what is kept for nominated pods counted as used."""
    return WithKept(used, kept) if kept else used


class _LedgerWithout:
    def __init__(self, uses: Mapping[DeviceId, Use], claims: frozenset[str]) -> None:
        self._uses, self._claims = uses, claims

    def __contains__(self, device: object) -> bool:
        use = self._uses.get(device) if isinstance(device, DeviceId) else None
        return use is not None and (bool(use.reserved) or not self._claims.issuperset(use.held))

    def consumed(self, device: DeviceId) -> Amounts | None:
        use = self._uses.get(device)
        if use is None:
            return {}
        left = Use(reserved=use.reserved)
        for claim, hold in use.held.items():
            if claim not in self._claims:
                left.hold(claim, hold)
        return None if left.is_whole else left.total()
