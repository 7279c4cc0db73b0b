"""Kubelet's own checkpoint of its device manager, byte for byte: `kubelet_internal_checkpoint`. Pure.

Its checksum is taken of a Go text form of the data, so null, empty and absent are three different things here.
"""

from collections.abc import Iterable, Mapping

import msgspec

from actors.devices.errors import CheckpointCorrupt
from actors.devices.ledger.fnv import OFFSET, Constant, fold

NAME = "kubelet_internal_checkpoint"


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one container has of one resource."""

    pod: str = msgspec.field(name="PodUID")
    container: str = msgspec.field(name="ContainerName")
    resource: str = msgspec.field(name="ResourceName")
    devices: dict[int, list[str] | None] | None = msgspec.field(name="DeviceIDs")
    """Ids by NUMA node, -1 = no topology; a device on several nodes stands under each."""
    response: bytes | None = msgspec.field(name="AllocResp")
    """The plugin's ContainerAllocateResponse as it came over the wire."""


class Data(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    entries: tuple[Entry, ...] | None = msgspec.field(name="PodDeviceEntries")
    registered: dict[str, list[str] | None] | None = msgspec.field(name="RegisteredDevices")
    """Healthy ids by resource; a plugin that is gone but not forgotten has an empty list."""


class File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    data: Data = msgspec.field(name="Data")
    checksum: int = msgspec.field(name="Checksum")


def decode(raw: bytes) -> Data:
    """Raises CheckpointCorrupt."""
    try:
        file = msgspec.json.decode(raw, type=File)
    except msgspec.DecodeError as error:
        raise CheckpointCorrupt(f"it is not kubelet's format: {error}") from None
    if checksum(file.data) != file.checksum:
        raise CheckpointCorrupt("its checksum does not match")
    return file.data


def encode(data: Data) -> bytes:
    return seal(data, checksum(data))


def seal(data: Data, signed: int) -> bytes:
    return msgspec.json.encode(File(data, signed))


def checksum(data: Data) -> int:
    entries = None if data.entries is None else [entry_text(entry) for entry in data.entries]
    return sign(entries, registered_text(data.registered))


def sign(entries: Iterable[bytes] | None, registered: Constant) -> int:
    head = b"(checkpoint.checkpointData){PodDeviceEntries:([]checkpoint.PodDevicesEntry)"
    return registered.fold(fold(OFFSET, head + _slice(entries)))


def registered_text(listed: Mapping[str, list[str] | None] | None) -> Constant:
    """The end of the text; it changes seldom and may be long."""
    pairs = None if listed is None else sorted((name.encode(), _strings(ids)) for name, ids in listed.items())
    return Constant(b" RegisteredDevices:(map[string][]string)" + _map(pairs) + b"}")


def entry_text(entry: Entry) -> bytes:
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
