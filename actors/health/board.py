"""What is published of each pod, brought up to date from the two streams and compared before it is sent. Pure."""

from collections.abc import Mapping

from actors.health.aggregate import Holders, pod_status
from protocols.messages.devices import DeviceHealth, PodAllocation
from protocols.messages.health import PodResourceStatus


class Board:
    """`published` is the stream's state; changes are collected as dirty pods and settled together."""

    def __init__(self, allocations: Mapping[str, PodAllocation], health: Mapping[str, DeviceHealth]) -> None:
        self._allocations = allocations
        self._health = health
        self._holders = Holders()
        self._dirty: set[str] = set()
        self.published: dict[str, PodResourceStatus] = {}

    def allocation_changed(self, uid: str, new: PodAllocation | None) -> None:
        self._holders.update(uid, new)
        self._dirty.add(uid)

    def health_changed(self, key: str) -> None:
        self._dirty.update(self._holders.of(key))

    def settle(self) -> dict[str, PodResourceStatus | None]:
        """What became different since the last time, by uid; None: nothing to show any more."""
        changes: dict[str, PodResourceStatus | None] = {}
        for uid in sorted(self._dirty):
            allocation = self._allocations.get(uid)
            new = pod_status(allocation, self._health) if allocation else None
            if new == self.published.get(uid):
                continue
            changes[uid] = new
            if new is None:
                del self.published[uid]
            else:
                self.published[uid] = new
        self._dirty.clear()
        return changes
