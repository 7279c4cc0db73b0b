"""Devices of one node that a request may be allocated, judged once each, when the search reaches them. Pure."""

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TypeVar

from protocols.dra.allocator.claims import SubRequest
from protocols.dra.allocator.shares import Share, amounts_of, lacking, share_of
from protocols.dra.allocator.types import AllocatedState, Amounts, CounterId, DeviceInfo, Pool
from protocols.dra.types import PoolId
from protocols.kube.taints import untolerated

Parts = Iterable[tuple[Pool, Sequence[DeviceInfo]]]
"""Devices by pool, in order."""
T = TypeVar("T")
InSteps = Generator[None, None, T]
"""Work that yields after each SCANNED devices."""
SCANNED = 16


class DeviceOrder:
    """Devices of one node in the order in which they are tried; requests that choose from all of them share it."""

    def __init__(self, parts: Parts) -> None:
        self.devices: list[DeviceInfo] = []
        self._pools: list[Pool] = []
        self._ends: list[int] = []
        for pool, devices in parts:
            self.devices += devices
            self._pools.append(pool)
            self._ends.append(len(self.devices))

    def pool(self, at: int) -> Pool:
        """Return the pool of the device at this place."""
        return self._pools[bisect_right(self._ends, at)]

    @cached_property
    def positions(self) -> Mapping[DeviceInfo, int]:
        return {device: at for at, device in enumerate(self.devices)}

    @cached_property
    def last_consumers(self) -> Mapping[tuple[PoolId, CounterId], int]:
        """The last place of a device that consumes a counter."""
        consumers = ((at, device.consumes) for at, device in enumerate(self.devices) if device.consumes)
        return {(self.pool(at).id, counter): at for at, counters in consumers for counter in counters}


UNKNOWN, FITTING, UNFIT = range(3)


class Candidates:
    """Devices of one node that a subrequest may be allocated, in order.

    Conditions that do not change during a search are evaluated once per device, when the search reaches it.
    """

    def __init__(
        self,
        subrequest: SubRequest,
        order: DeviceOrder,
        used: AllocatedState,
        matches: Callable[[DeviceInfo], bool],
        taints: bool,
    ) -> None:
        self.subrequest = subrequest
        self.order, self.devices = order, order.devices
        self._used = used
        self._matches = matches
        self._taints = taints
        self._judged = bytearray(len(self.devices))
        self._unfit = 0
        self._shares: dict[DeviceInfo, Share | None] = {}

    def is_fitting(self, at: int) -> bool:
        """Raises AllocationFault."""
        if self._judged[at] == UNKNOWN:
            fits = self._is_candidate(self.devices[at])
            self._judged[at] = FITTING if fits else UNFIT
            self._unfit += not fits
        return self._judged[at] == FITTING

    def first(self, at: int) -> int:
        """Return the place from `at` on of the first device that may fit; the number of devices if there is none."""
        if not self._unfit or at >= len(self._judged) or self._judged[at] != UNFIT:
            return at
        places = self._judged.find(UNKNOWN, at), self._judged.find(FITTING, at)
        return min((place for place in places if place >= 0), default=len(self._judged))

    def can_take(self, device: DeviceInfo) -> bool:
        """Raises AllocationFault."""
        at = self.position(device)
        return at >= 0 and self.is_fitting(at)

    def position(self, device: DeviceInfo) -> int:
        """Return its place in the order, or -1."""
        return self.order.positions.get(device, -1)

    def has_enough(self, start: int, need: int) -> bool:
        """Return False once fewer than `need` devices can fit from `start` on."""
        if len(self.devices) - start - self._unfit >= need:
            return True
        for _ in range(need):
            if start > len(self.devices):
                break
            start = self.first(start) + 1
        return start <= len(self.devices)

    def share(self, device: DeviceInfo) -> Share | None:
        """Return the consumption of a subrequest on a shared device; None for other devices. Raises AllocationFault."""
        if not device.is_shared:
            return None
        if device not in self._shares:
            self._shares[device] = consumption(self.subrequest, device)
        return self._shares[device]

    def consumed(self, device: DeviceInfo) -> Amounts:
        """Return what others consume of a shared device; admin access ignores them."""
        return {} if self.subrequest.admin else self._used.consumed(device.id) or {}

    def _is_candidate(self, device: DeviceInfo) -> bool:
        if not self.subrequest.admin and is_in_use(device, self._used):
            return False
        if not self._matches(device):
            return False
        if self._taints and untolerated(device.spec.taints, self.subrequest.tolerations):
            return False
        share = self.share(device) if device.is_shared else consumption(self.subrequest, device)
        return has_room_for_share(self.subrequest, device, self._used, share)


def is_in_use(device: DeviceInfo, used: AllocatedState) -> bool:
    """Return True if nobody else can have the device: it is allocated as a whole, or in use and not shared."""
    return device.id in used and (not device.is_shared or used.consumed(device.id) is None)


def consumption(subrequest: SubRequest, device: DeviceInfo) -> Share | None:
    """Return the capacity that a subrequest needs of a device; empty if it needs none.

    None if the device cannot serve it even when it is free. Raises AllocationFault.
    """
    limited = device.is_shared or subrequest.capacity
    return share_of(device.id.driver, device.spec, subrequest.capacity) if limited else {}


def has_room_for_share(subrequest: SubRequest, device: DeviceInfo, used: AllocatedState, share: Share | None) -> bool:
    """Return True if the device has the capacity that a subrequest needs, beside the shares of others."""
    return share is not None and not shortages(subrequest, device, used, share)


def shortages(subrequest: SubRequest, device: DeviceInfo, used: AllocatedState, share: Share) -> list[str]:
    """Return the capacities of which others leave too little for this share of a device."""
    if subrequest.admin or not device.is_shared:
        return []
    return list(lacking(device.spec.capacity, used.consumed(device.id) or {}, amounts_of(share)))
