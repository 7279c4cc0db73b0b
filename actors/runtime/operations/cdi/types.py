"""A CDI file, as far as this runtime heeds it. Fields it does not name are ignored, as the format asks."""

from typing import Any

import msgspec


class DeviceNode(msgspec.Struct, frozen=True, rename="camel"):
    path: str
    host_path: str = ""


class Mount(msgspec.Struct, frozen=True, rename="camel"):
    host_path: str
    container_path: str
    options: tuple[str, ...] | None = None
    type: str = ""


class Edits(msgspec.Struct, frozen=True, rename="camel"):
    env: tuple[str, ...] | None = None
    device_nodes: tuple[DeviceNode, ...] | None = None
    mounts: tuple[Mount, ...] | None = None
    hooks: tuple[Any, ...] | None = None
    additional_gids: tuple[int, ...] | None = msgspec.field(name="additionalGids", default=None)


class Device(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    container_edits: Edits = Edits()


class Spec(msgspec.Struct, frozen=True, rename="camel"):
    cdi_version: str = msgspec.field(name="cdiVersion")
    kind: str
    """VENDOR/CLASS; a device's full name is VENDOR/CLASS=NAME."""
    devices: tuple[Device, ...] = ()
    container_edits: Edits = Edits()
    """For every container that gets any of the devices."""
