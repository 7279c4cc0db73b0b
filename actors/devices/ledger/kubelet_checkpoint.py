"""kubelet's device manager checkpoint, byte for byte: `kubelet_internal_checkpoint`, and its mapping to records. Pure.

Its checksum is computed over Go's %#v text of the data, so null, empty and absent are three different things.
"""

from collections.abc import Iterable, Mapping

import msgspec
from google.protobuf.message import DecodeError

from actors.devices.model.errors import CheckpointCorrupt
from actors.devices.model.go_checksum import OFFSET, Constant, fold
from protocols.lifecycle.devices.types import DeviceKey, PodRecord
from protocols.messages.devices import AllocatedDevice, ContainerAllocation, PodAllocation
from protocols.process.files import UNREADABLE
from protocols.wire import deviceplugin_v1beta1_pb2 as pb

NAME = "kubelet_internal_checkpoint"


class CheckpointEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One resource of one container."""

    pod: str = msgspec.field(name="PodUID")
    container: str = msgspec.field(name="ContainerName")
    resource: str = msgspec.field(name="ResourceName")
    devices: dict[int, list[str] | None] | None = msgspec.field(name="DeviceIDs")
    """Ids by NUMA node, -1 without topology; a device on several nodes is listed under each."""
    response: bytes | None = msgspec.field(name="AllocResp")
    """The plugin's raw ContainerAllocateResponse."""


class Data(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The part that the checksum covers."""

    entries: tuple[CheckpointEntry, ...] | None = msgspec.field(name="PodDeviceEntries")
    registered: dict[str, list[str] | None] | None = msgspec.field(name="RegisteredDevices")
    """Healthy ids by resource; empty for a disconnected plugin within its grace period."""


class File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file."""

    data: Data = msgspec.field(name="Data")
    checksum: int = msgspec.field(name="Checksum")


def decode(raw: bytes) -> Data:
    """Raises CheckpointCorrupt."""
    try:
        file = msgspec.json.decode(raw, type=File)
    except UNREADABLE as error:
        raise CheckpointCorrupt(f"it is not kubelet's format: {error}") from None
    if checksum(file.data) != file.checksum:
        raise CheckpointCorrupt("its checksum does not match")
    return file.data


def encode(data: Data) -> bytes:
    """Return the file."""
    return seal(data, checksum(data))


def seal(data: Data, signed: int) -> bytes:
    """Return the file with a checksum that is known already."""
    return msgspec.json.encode(File(data, signed))


def checksum(data: Data) -> int:
    """Return the checksum that kubelet computes."""
    entries = None if data.entries is None else [entry_text(entry) for entry in data.entries]
    return sign(entries, registered_text(data.registered))


def sign(entries: Iterable[bytes] | None, registered: Constant) -> int:
    """Return the checksum of entries whose texts are known, see `entry_text`; None for null."""
    head = b"(checkpoint.checkpointData){PodDeviceEntries:([]checkpoint.PodDevicesEntry)"
    return registered.fold(fold(OFFSET, head + _slice(entries)))


def registered_text(listed: Mapping[str, list[str] | None] | None) -> Constant:
    """Return the end of the checksummed text, which may be long and seldom changes."""
    pairs = None if listed is None else sorted((name.encode(), _strings(ids)) for name, ids in listed.items())
    return Constant(b" RegisteredDevices:(map[string][]string)" + _map(pairs) + b"}")


def entry_text(entry: CheckpointEntry) -> bytes:
    """Return Go's text of an entry, which its checksum covers."""
    nodes = None if entry.devices is None else sorted(entry.devices.items())
    devices = _map(None if nodes is None else [(str(node).encode(), _strings(ids)) for node, ids in nodes])
    response = _slice(None if entry.response is None else [b"%d" % byte for byte in entry.response])
    words = (f"(string){word}" for word in (entry.pod, entry.container, entry.resource))
    head = "{{PodUID:{} ContainerName:{} ResourceName:{}".format(*words).encode()
    return b"%s DeviceIDs:(checkpoint.DevicesPerNUMA)%s AllocResp:([]uint8)%s}" % (head, devices, response)


def _strings(ids: Iterable[str] | None) -> bytes:
    return _slice(None if ids is None else [id.encode() for id in ids])


def _slice(parts: Iterable[bytes] | None) -> bytes:
    return b"<nil>" if parts is None else b"[" + b" ".join(parts) + b"]"


def _map(pairs: Iterable[tuple[bytes, bytes]] | None) -> bytes:
    return b"<nil>" if pairs is None else b"map[" + b" ".join(key + b":" + text for key, text in pairs) + b"]"


NO_NODE = -1
FOREIGN_BOOT = "another life"
"""Boot id of records that are not ours: their pods are checked before they start again."""


def entries_of(record: PodRecord) -> list[CheckpointEntry]:
    """Return one entry per container and resource, in the record's order."""
    uid = record.allocation.uid
    return [
        CheckpointEntry(
            uid, container.name, resource, nodes, record.responses.get(container.name, {}).get(resource, b"")
        )
        for container in record.allocation.containers
        for resource, nodes in _by_resource(container.devices).items()
    ]


def _by_resource(devices: Iterable[AllocatedDevice]) -> dict[str, dict[int, list[str] | None]]:
    by_resource: dict[str, dict[int, list[str]]] = {}
    for device in devices:
        for node in device.numa or (NO_NODE,):
            by_resource.setdefault(device.resource, {}).setdefault(node, []).append(device.id)
    return {resource: {**nodes} for resource, nodes in by_resource.items()}


def records_of(entries: Iterable[CheckpointEntry]) -> dict[str, PodRecord]:
    """Return records by uid, without pod names: the checkpoint has none."""
    pods: dict[str, list[CheckpointEntry]] = {}
    for entry in entries:
        pods.setdefault(entry.pod, []).append(entry)
    return {uid: _record(uid, entries) for uid, entries in pods.items()}


def is_readable(entry: CheckpointEntry) -> bool:
    """Return False for a malformed response: as in kubelet, its container has no devices of the resource then."""
    try:
        pb.ContainerAllocateResponse.FromString(entry.response or b"")
    except DecodeError:
        return False
    return True


def _record(uid: str, entries: list[CheckpointEntry]) -> PodRecord:
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
        AllocatedDevice(key.resource, key.id, tuple(sorted(numa - {NO_NODE}))) for key, numa in sorted(nodes.items())
    )


class EntryTexts:
    """Cache of each record's entries and checksummed text. Records are immutable."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[PodRecord, list[CheckpointEntry], list[bytes]]] = {}

    def of(self, records: Iterable[PodRecord]) -> tuple[list[CheckpointEntry], list[bytes]]:
        by_uid = {record.allocation.uid: self._one(record) for record in records}
        self._made = by_uid
        entries = [entry for _, some, _ in by_uid.values() for entry in some]
        return entries, [text for _, _, texts in by_uid.values() for text in texts]

    def _one(self, record: PodRecord) -> tuple[PodRecord, list[CheckpointEntry], list[bytes]]:
        known = self._made.get(record.allocation.uid)
        if known is not None and known[0] is record:
            return known
        entries = entries_of(record)
        return record, entries, [entry_text(entry) for entry in entries]
