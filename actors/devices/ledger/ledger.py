"""Who holds which device. Pure; one writer.

Invariant, after every call: a device belongs to at most one pod, counting reservations of admissions under way.
"""

from collections.abc import Iterable

from actors.devices.model.errors import DevicesTaken
from actors.devices.model.types import DeviceKey, PodRecord
from protocols.messages.devices import AllocatedDevice, PodAllocation


def held_by(allocation: PodAllocation) -> set[DeviceKey]:
    """Devices of a pod; an init container's may also be an app container's, so a set."""
    return {DeviceKey(device.resource, device.id) for item in allocation.containers for device in item.devices}


class Ledger:
    """Admitted pods by uid, and the owner of every device that is held or reserved."""

    def __init__(self, records: Iterable[PodRecord] = ()) -> None:
        self.pods: dict[str, PodRecord] = {}
        self.owners: dict[DeviceKey, str] = {}
        self._held: dict[str, set[DeviceKey]] = {}
        self._taken: dict[str, set[str]] = {}
        """Ids by resource: the keys of `owners` once more, for the questions that are asked of each device."""
        for record in records:
            self.admit(record)

    def free(self, resource: str, ids: Iterable[str]) -> list[str]:
        """Those of `ids` that nobody holds or has reserved, in the given order."""
        taken = self._taken.get(resource, set())
        return [id for id in ids if id not in taken]

    def holds(self, resource: str) -> bool:
        """Whether any pod has, or is about to have, a device of it."""
        return bool(self._taken.get(resource))

    def reserve(self, uid: str, keys: Iterable[DeviceKey]) -> None:
        """All of `keys` for one pod or none; raises DevicesTaken."""
        wanted = set(keys)
        taken = sorted(key.text for key in wanted if self.owners.get(key, uid) != uid)
        if taken:
            raise DevicesTaken(f"devices already in use: {', '.join(taken)}")
        self.owners.update(dict.fromkeys(wanted, uid))
        self._held.setdefault(uid, set()).update(wanted)
        for key in wanted:
            self._taken.setdefault(key.resource, set()).add(key.id)

    def cancel(self, uid: str) -> None:
        """Give back what `uid` reserved and did not get."""
        kept = held_by(self.pods[uid].allocation) if uid in self.pods else set()
        for key in self._held.pop(uid, set()) - kept:
            del self.owners[key]
            self._taken[key.resource].discard(key.id)
        if kept:
            self._held[uid] = kept

    def admit(self, record: PodRecord) -> None:
        """The pod holds its devices from now on; raises DevicesTaken and changes nothing when it cannot."""
        uid = record.allocation.uid
        self.reserve(uid, held_by(record.allocation))
        self.pods[uid] = record
        self.cancel(uid)

    def update(self, record: PodRecord) -> bool:
        """The pod's record says more than before; False when there is nothing new or the pod is not known.
        Its devices stay what they are."""
        known = self.pods.get(record.allocation.uid)
        if known is None or known == record or held_by(known.allocation) != held_by(record.allocation):
            return False
        self.pods[record.allocation.uid] = record
        return True

    def release(self, uid: str) -> PodRecord | None:
        """The pod is gone and its devices are free; returns what it had, None when it was not known."""
        record = self.pods.pop(uid, None)
        self.cancel(uid)
        return record

    def strangers(self, active: Iterable[str]) -> list[str]:
        """Pods that are none of `active`."""
        return sorted(self.pods.keys() - set(active))

    def allocated(self) -> dict[DeviceKey, AllocatedDevice]:
        """Every device that a pod holds (reservations are not)."""
        return {
            DeviceKey(device.resource, device.id): device
            for record in self.pods.values()
            for container in record.allocation.containers
            for device in container.devices
        }
