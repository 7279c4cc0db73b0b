"""Resources, devices and health as plugins report them. Pure: no sockets, no clock.

Connections are numbered by generation. The newest one that has reported serves the resource, so a rolling update of a
plugin shows no dip; an older one affects it only after the newer ones have ended.
"""

from collections.abc import Iterable, Mapping

import msgspec

from protocols.lifecycle.devices.types import CHAOS, DeviceKey, PluginDevice, PluginOptions
from protocols.lifecycle.errors import InvalidHealth, UnknownDevice
from protocols.messages.devices import HEALTHY, UNHEALTHY, UNKNOWN, Device, ResourceInventory
from protocols.process.texts import listed

OVERRIDES = {"healthy": HEALTHY, "unhealthy": UNHEALTHY}

DISCONNECTED_MESSAGE = "device plugin is not connected"
NAMED = 8
"""Names of what exists that an error lists."""
MISSING_MESSAGE = "device is no longer reported by its plugin"


class InventoryResource(msgspec.Struct):
    """One resource; `serving` is the generation that reported the devices."""

    name: str
    serving: int = 0
    connected: bool = False
    options: PluginOptions = msgspec.field(default_factory=PluginOptions)
    devices: dict[str, PluginDevice] = msgspec.field(default_factory=dict)
    numa: dict[str, tuple[int, ...]] = msgspec.field(default_factory=dict)
    """NUMA nodes of the devices that have any."""
    stopped_at: float | None = None
    registered: bool = False
    """True from the first registration until the grace period after the plugin's end is over."""


class Inventory:
    """All resources this node ever had, and overrides of health."""

    def __init__(self, known: Iterable[str] = (), overrides: Mapping[DeviceKey, str] | None = None) -> None:
        self.resources = {name: InventoryResource(name) for name in known}
        self.overrides = dict(overrides or {})
        self._generation = 0
        self._healthy: dict[str, list[str]] = {}
        """Cache of healthy ids by resource."""

    def expect(self, names: Iterable[str], now: float) -> None:
        """Expect plugins from before a restart; their grace period starts at `now`."""
        for name in names:
            resource = self.resources.setdefault(name, InventoryResource(name))
            resource.registered, resource.stopped_at = True, now

    def register(self, name: str) -> int:
        """Add a connection and return its generation. An older one keeps serving until this one reports."""
        self.resources.setdefault(name, InventoryResource(name)).registered = True
        self._generation += 1
        return self._generation

    def report(self, name: str, generation: int, options: PluginOptions, devices: Iterable[PluginDevice]) -> bool:
        """Apply a plugin's full list. Return False if a newer connection serves or nothing changed."""
        resource = self.resources[name]
        if generation < resource.serving and resource.connected:
            return False
        listed = {device.id: device for device in devices}
        unchanged = resource.connected and resource.serving == generation and listed == resource.devices
        resource.serving, resource.connected, resource.stopped_at = generation, True, None
        resource.options, resource.devices, resource.registered = options, listed, True
        resource.numa = {id: device.numa for id, device in listed.items() if device.numa}
        self._healthy.pop(name, None)
        return not unchanged

    def disconnect(self, name: str, generation: int, now: float) -> bool:
        """Record the end of a plugin's stream. Return False if another one serves, or the grace period runs already."""
        resource = self.resources[name]
        if not resource.connected and resource.stopped_at is None:  # it ended before its first list
            resource.stopped_at = now
            return True
        if generation != resource.serving or not resource.connected:
            return False
        resource.connected, resource.stopped_at = False, now
        self._healthy.pop(name, None)
        return True

    def expire(self, now: float, grace: float) -> list[str]:
        """Drop the devices of plugins that are gone for `grace` seconds. Return the changed resources."""
        gone = [item for item in self.resources.values() if item.stopped_at is not None]
        over = [item for item in gone if item.stopped_at is not None and item.stopped_at + grace <= now]
        for resource in over:
            resource.devices, resource.numa, resource.stopped_at, resource.registered = {}, {}, None, False
        return [resource.name for resource in over]

    def override(self, key: DeviceKey, health: str) -> None:
        """Override a device's health; "" ends the override. Raises UnknownDevice or InvalidHealth."""
        if health and health not in OVERRIDES:
            raise InvalidHealth(f'health "{health}" does not exist; use healthy, unhealthy or nothing')
        if not health:
            self.overrides.pop(key, None)
        elif self.reported(key) is None:
            raise UnknownDevice(f"no device {key.id} of {key.resource} on this node; {self._known(key.resource)}")
        else:
            self.overrides[key] = OVERRIDES[health]
        self._healthy.pop(key.resource, None)

    def _known(self, name: str) -> str:
        """Return which devices of a resource there are; without any, which resources."""
        resource = self.resources.get(name)
        if resource and resource.devices:
            return f"there are {listed(list(resource.devices), NAMED)}"
        names = [each.name for each in self.resources.values() if each.devices]
        return f"resources with devices: {listed(names, NAMED) or 'none'}"

    def restore(self, key: DeviceKey, override: str | None) -> None:
        """Restore the earlier override, or none."""
        if override is None:
            self.overrides.pop(key, None)
        else:
            self.overrides[key] = override
        self._healthy.pop(key.resource, None)

    def reported(self, key: DeviceKey) -> PluginDevice | None:
        resource = self.resources.get(key.resource)
        return resource.devices.get(key.id) if resource else None

    def health(self, key: DeviceKey) -> tuple[str, str]:
        """Return the health and message of a device, reported or not."""
        device = self.reported(key)
        if not self.connected(key.resource):
            return UNKNOWN, DISCONNECTED_MESSAGE
        if device is None:
            return UNKNOWN, MISSING_MESSAGE
        if key in self.overrides:
            return self.overrides[key], CHAOS
        return (HEALTHY if device.healthy else UNHEALTHY), ""

    def connected(self, name: str) -> bool:
        return name in self.resources and self.resources[name].connected

    def awaited(self, name: str) -> bool:
        """Return True if the resource existed before a restart and nobody has reported it since."""
        return name in self.resources and not self.resources[name].serving

    def registered(self, name: str) -> bool:
        return name in self.resources and self.resources[name].registered

    def healthy(self, name: str) -> list[str]:
        """Return the sorted ids of healthy devices. Callers must not change the list."""
        if name not in self._healthy:
            devices = self.resources[name].devices if name in self.resources else {}
            healthy_ids = (id for id in devices if self.health(DeviceKey(name, id))[0] == HEALTHY)
            self._healthy[name] = sorted(healthy_ids) if self.connected(name) else []
        return self._healthy[name]

    def all_healthy(self) -> dict[str, list[str]]:
        """Return the healthy ids of every registered resource."""
        return {name: self.healthy(name) for name, resource in self.resources.items() if resource.registered}

    def view(self, name: str) -> ResourceInventory:
        """Return the resource as published, devices sorted by id."""
        resource = self.resources[name]
        devices = (self._device(name, device) for _, device in sorted(resource.devices.items()))
        return ResourceInventory(resource=name, connected=resource.connected, devices=tuple(devices))

    def _device(self, name: str, device: PluginDevice) -> Device:
        health, _ = self.health(DeviceKey(name, device.id))
        return Device(resource=name, id=device.id, numa=device.numa, health=health)
