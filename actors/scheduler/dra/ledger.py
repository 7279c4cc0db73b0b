"""Which devices are taken, by whom, and who came first. Pure.

Two claims cannot both keep a device. Their allocations are two objects, so no version of the API keeps them apart; the
order of the watch does: every reader sees the same one. Whoever holds a device that an earlier claim holds has lost it,
and knows so once its own write came back through the watch, for by then everything earlier did as well.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterable

from protocols.dra.types import DeviceId

UNKNOWN = 0
"""Order of what was listed, not watched: it may be earlier than anything."""
Devices = frozenset[DeviceId]
NOTHING: Devices = frozenset()


class Ledger:
    """Holds what the watch told (`saw`), and promises: devices of writes that are under way or not told of yet."""

    def __init__(self) -> None:
        self._held: defaultdict[DeviceId, dict[str, int]] = defaultdict(dict)
        self._by_claim: dict[str, Devices] = {}
        self._promised: dict[DeviceId, str] = {}
        self._promises: dict[str, Devices] = {}
        self._orders = itertools.count(UNKNOWN + 1)
        self._revisions: dict[tuple[str, str], int] = {}

    def __contains__(self, device: object) -> bool:
        return device in self._held or device in self._promised

    def __len__(self) -> int:
        return len(self._held.keys() | self._promised.keys())

    def revisions(self, pools: Iterable[tuple[str, str]]) -> int:
        """A larger number whenever something of one of the pools was taken or freed."""
        known, total = self._revisions, 0
        for pool in pools:
            total += known.get(pool, 0)
        return total

    def saw(self, claim: str, devices: Devices, ordered: bool = True) -> bool:
        """What a claim holds now, as the watch tells; True when something got free."""
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

    def promise(self, claim: str, devices: Devices) -> bool:
        """All of them, or none if one is taken already."""
        if any(device in self for device in devices):
            return False
        self._promises[claim] = devices
        for device in devices:
            self._promised[device] = claim
            self._touch(device)
        return True

    def promised(self, claim: str) -> bool:
        return claim in self._promises

    def withdraw(self, claim: str) -> bool:
        """The promise is kept by now, or will never be; True when something got free by it."""
        freed = False
        for device in self._promises.pop(claim, NOTHING):
            del self._promised[device]
            self._touch(device)
            freed = freed or device not in self._held
        return freed

    def hand_over(self, claim: str, to: str) -> None:
        """A promise to a claim that had no uid yet."""
        devices = self._promises[to] = self._promises.pop(claim)
        for device in devices:
            self._promised[device] = to

    def rivals(self, claim: str) -> set[str]:
        """Claims that had one of its devices before it, or may have had."""
        found = set()
        for device in self._by_claim.get(claim, NOTHING):
            holders = self._held[device]
            mine = holders[claim]
            found |= {other for other, order in holders.items() if other != claim and (order < mine or not mine)}
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
