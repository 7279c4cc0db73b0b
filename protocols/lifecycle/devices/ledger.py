"""The allocated devices of each pod. Pure; one writer.

Invariant after every call: a device belongs to at most one pod, including reservations of admissions in progress.
"""

from collections.abc import Iterable

from protocols.lifecycle.devices.types import DeviceKey, PodRecord
from protocols.lifecycle.errors import DevicesInUse
from protocols.messages.devices import AllocatedDevice, PodAllocation


def held_by(allocation: PodAllocation) -> set[DeviceKey]:
    """Return a pod's devices. Init and app containers may share devices, hence a set."""
    return {DeviceKey(device.resource, device.id) for item in allocation.containers for device in item.devices}


class Ledger:
    """Admitted pods by uid, and the owner of every allocated or reserved device."""

    def __init__(self, records: Iterable[PodRecord] = ()) -> None:
        self.pods: dict[str, PodRecord] = {}
        self.owners: dict[DeviceKey, str] = {}
        self._held: dict[str, set[DeviceKey]] = {}
        self._taken: dict[str, set[str]] = {}
        """The keys of `owners` by resource, for lookups of single devices."""
        for record in records:
            self.admit(record)

    def free(self, resource: str, ids: Iterable[str]) -> list[str]:
        """Return those of `ids` that are neither allocated nor reserved, in the given order."""
        taken = self._taken.get(resource, set())
        return [id for id in ids if id not in taken]

    def holds(self, resource: str) -> bool:
        """Return True if a device of the resource is allocated or reserved."""
        return bool(self._taken.get(resource))

    def reserve(self, uid: str, keys: Iterable[DeviceKey]) -> None:
        """Reserve all of `keys` for one pod or none. Raises DevicesInUse."""
        requested = set(keys)
        taken = sorted(key.text for key in requested if self.owners.get(key, uid) != uid)
        if taken:
            raise DevicesInUse(f"devices already in use: {', '.join(taken)}")
        self.owners.update(dict.fromkeys(requested, uid))
        self._held.setdefault(uid, set()).update(requested)
        for key in requested:
            self._taken.setdefault(key.resource, set()).add(key.id)

    def cancel(self, uid: str) -> None:
        """Free what is reserved but not allocated."""
        allocated_keys = held_by(self.pods[uid].allocation) if uid in self.pods else set()
        for key in self._held.pop(uid, set()) - allocated_keys:
            del self.owners[key]
            self._taken[key.resource].discard(key.id)
        if allocated_keys:
            self._held[uid] = allocated_keys

    def admit(self, record: PodRecord) -> None:
        """Allocate the record's devices. Raises DevicesInUse without any change."""
        uid = record.allocation.uid
        self.reserve(uid, held_by(record.allocation))
        self.pods[uid] = record
        self.cancel(uid)

    def update(self, record: PodRecord) -> bool:
        """Replace a pod's record, with the same devices. Return False if it is unchanged or the pod is unknown."""
        known = self.pods.get(record.allocation.uid)
        if known is None or known == record or held_by(known.allocation) != held_by(record.allocation):
            return False
        self.pods[record.allocation.uid] = record
        return True

    def release(self, uid: str) -> PodRecord | None:
        """Free a pod's devices and return its record, or None if it is unknown."""
        record = self.pods.pop(uid, None)
        self.cancel(uid)
        return record

    def orphans(self, active: Iterable[str]) -> list[str]:
        """Return the pods that are not in `active`."""
        return sorted(self.pods.keys() - set(active))

    def allocated(self) -> dict[DeviceKey, AllocatedDevice]:
        """Return every allocated device, without reservations."""
        return {
            DeviceKey(device.resource, device.id): device
            for record in self.pods.values()
            for container in record.allocation.containers
            for device in container.devices
        }
