"""Between our records and the entries of kubelet's checkpoint. Pure."""

from collections.abc import Iterable

from actors.devices.ledger.kubelet import Data, Entry, entry_text
from actors.devices.types import DeviceKey, PodRecord
from protocols.messages.devices import AllocatedDevice, ContainerAllocation, PodAllocation

NO_NODE = -1
FOREIGN_BOOT = "another life"
"""Of records that are not ours: a pod that does not run is looked at again before it starts."""


def entries_of(record: PodRecord) -> list[Entry]:
    """One entry per container and resource, in the record's order."""
    uid = record.allocation.uid
    return [
        Entry(uid, container.name, resource, nodes, record.responses.get(container.name, {}).get(resource, b""))
        for container in record.allocation.containers
        for resource, nodes in _by_resource(container.devices).items()
    ]


def _by_resource(devices: Iterable[AllocatedDevice]) -> dict[str, dict[int, list[str] | None]]:
    found: dict[str, dict[int, list[str]]] = {}
    for device in devices:
        for node in device.numa or (NO_NODE,):
            found.setdefault(device.resource, {}).setdefault(node, []).append(device.id)
    return {resource: {**nodes} for resource, nodes in found.items()}


def records_of(data: Data) -> dict[str, PodRecord]:
    """By uid, without names: a kubelet finds those at the API."""
    pods: dict[str, list[Entry]] = {}
    for entry in data.entries or ():
        pods.setdefault(entry.pod, []).append(entry)
    return {uid: _record(uid, entries) for uid, entries in pods.items()}


def _record(uid: str, entries: list[Entry]) -> PodRecord:
    devices: dict[str, dict[DeviceKey, set[int]]] = {}
    responses: dict[str, dict[str, bytes]] = {}
    for entry in entries:
        nodes = devices.setdefault(entry.container, {})
        for node, ids in (entry.devices or {}).items():
            for id in ids or ():
                nodes.setdefault(DeviceKey(entry.resource, id), set()).add(node)
        responses.setdefault(entry.container, {})[entry.resource] = entry.response or b""
    containers = tuple(ContainerAllocation(name, devices=_devices(nodes)) for name, nodes in devices.items())
    return PodRecord(PodAllocation(uid, "", "", containers), responses, boot=FOREIGN_BOOT)


def _devices(nodes: dict[DeviceKey, set[int]]) -> tuple[AllocatedDevice, ...]:
    return tuple(
        AllocatedDevice(key.resource, key.id, tuple(sorted(found - {NO_NODE}))) for key, found in sorted(nodes.items())
    )


class EntryTexts:
    """What each record means for the file; made once, since a record never changes."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[PodRecord, list[Entry], list[bytes]]] = {}

    def of(self, records: Iterable[PodRecord]) -> tuple[list[Entry], list[bytes]]:
        made = {record.allocation.uid: self._one(record) for record in records}
        self._made = made
        entries = [entry for _, some, _ in made.values() for entry in some]
        return entries, [text for _, _, texts in made.values() for text in texts]

    def _one(self, record: PodRecord) -> tuple[PodRecord, list[Entry], list[bytes]]:
        known = self._made.get(record.allocation.uid)
        if known is not None and known[0] is record:
            return known
        entries = entries_of(record)
        return record, entries, [entry_text(entry) for entry in entries]
