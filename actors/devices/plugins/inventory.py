"""What plugins have reported: resources, their devices and health. Pure: no sockets, no clock of its own.

Connections are told apart by generation. The newest one that has reported serves the resource; whatever an older one
says or does afterwards concerns only itself, so a rolling update of a plugin shows no dip.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from actors.devices.model.errors import InvalidHealth, UnknownDevice
from actors.devices.model.types import CHAOS, DeviceKey, PluginDevice, PluginOptions
from protocols.messages.devices import HEALTHY, UNHEALTHY, UNKNOWN, Device, ResourceInventory

FORCED = {"healthy": HEALTHY, "unhealthy": UNHEALTHY}

GONE = "device plugin is not connected"
MISSING = "device is no longer reported by its plugin"


@dataclass
class Resource:
    """One resource; `serving` is the generation whose devices these are."""

    name: str
    serving: int = 0
    connected: bool = False
    options: PluginOptions = field(default_factory=PluginOptions)
    devices: dict[str, PluginDevice] = field(default_factory=dict)
    numa: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """NUMA nodes of the devices that have some."""
    stopped_at: float | None = None
    registered: bool = False
    """From the first registration until the grace after a plugin's end is over; then kubelet forgets the resource."""


class Inventory:
    """All resources this node ever had, and the health that chaos forces on some devices."""

    def __init__(self, known: Iterable[str] = (), overrides: Mapping[DeviceKey, str] | None = None) -> None:
        self.resources = {name: Resource(name) for name in known}
        self.overrides = dict(overrides or {})
        self._generation = 0
        self._healthy: dict[str, list[str]] = {}
        """Made when asked for, dropped when the resource changes."""

    def expect(self, names: Iterable[str], now: float) -> None:
        """These were registered in an earlier life; their plugins have from `now` on to come back."""
        for name in names:
            resource = self.resources.setdefault(name, Resource(name))
            resource.registered, resource.stopped_at = True, now

    def register(self, name: str) -> int:
        """A plugin connects; returns its generation. What served before goes on until this one reports."""
        self.resources.setdefault(name, Resource(name)).registered = True
        self._generation += 1
        return self._generation

    def report(self, name: str, generation: int, options: PluginOptions, devices: Iterable[PluginDevice]) -> bool:
        """The full list of one plugin; False when a newer one serves or nothing changed."""
        resource = self.resources[name]
        if generation < resource.serving:
            return False
        listed = {device.id: device for device in devices}
        unchanged = resource.connected and resource.serving == generation and listed == resource.devices
        resource.serving, resource.connected, resource.stopped_at = generation, True, None
        resource.options, resource.devices, resource.registered = options, listed, True
        resource.numa = {id: device.numa for id, device in listed.items() if device.numa}
        self._healthy.pop(name, None)
        return not unchanged

    def disconnect(self, name: str, generation: int, now: float) -> bool:
        """A plugin's stream ended; False when it was not the one that serves."""
        resource = self.resources[name]
        if generation != resource.serving or not resource.connected:
            return False
        resource.connected, resource.stopped_at = False, now
        self._healthy.pop(name, None)
        return True

    def expire(self, now: float, grace: float) -> list[str]:
        """Forget the devices of plugins that are gone for `grace`; returns the resources that changed."""
        gone = [item for item in self.resources.values() if item.stopped_at is not None]
        over = [item for item in gone if item.stopped_at is not None and item.stopped_at + grace <= now]
        for resource in over:
            resource.devices, resource.numa, resource.stopped_at, resource.registered = {}, {}, None, False
        return [resource.name for resource in over]

    def force(self, key: DeviceKey, health: str) -> None:
        """Override a device's health; empty ends the override. Raises UnknownDevice or InvalidHealth."""
        if health and health not in FORCED:
            raise InvalidHealth(f'health "{health}" does not exist; use healthy, unhealthy or nothing')
        if not health:
            self.overrides.pop(key, None)
        elif self.reported(key) is None:
            raise UnknownDevice(f"no device {key.id} of {key.resource} on this node; see `nodeplane devices`")
        else:
            self.overrides[key] = FORCED[health]
        self._healthy.pop(key.resource, None)

    def restore(self, key: DeviceKey, override: str | None) -> None:
        """Take an order back: the override that stood before it, or none."""
        if override is None:
            self.overrides.pop(key, None)
        else:
            self.overrides[key] = override
        self._healthy.pop(key.resource, None)

    def reported(self, key: DeviceKey) -> PluginDevice | None:
        resource = self.resources.get(key.resource)
        return resource.devices.get(key.id) if resource else None

    def health(self, key: DeviceKey) -> tuple[str, str]:
        """Health of a device and why, also of one that nobody reports."""
        device = self.reported(key)
        if not self.connected(key.resource):
            return UNKNOWN, GONE
        if device is None:
            return UNKNOWN, MISSING
        if key in self.overrides:
            return self.overrides[key], CHAOS
        return (HEALTHY if device.healthy else UNHEALTHY), ""

    def connected(self, name: str) -> bool:
        return name in self.resources and self.resources[name].connected

    def awaited(self, name: str) -> bool:
        """Whether this node had the resource before, and nobody has reported it since the manager started."""
        return name in self.resources and not self.resources[name].serving

    def registered(self, name: str) -> bool:
        return name in self.resources and self.resources[name].registered

    def healthy(self, name: str) -> list[str]:
        """Ids that may be given to a pod as far as health goes, sorted. Not to be changed by who asks."""
        if name not in self._healthy:
            devices = self.resources[name].devices if name in self.resources else {}
            well = (id for id in devices if self.health(DeviceKey(name, id))[0] == HEALTHY)
            self._healthy[name] = sorted(well) if self.connected(name) else []
        return self._healthy[name]

    def all_healthy(self) -> dict[str, list[str]]:
        """Healthy ids of every resource that is registered."""
        return {name: self.healthy(name) for name, resource in self.resources.items() if resource.registered}

    def view(self, name: str) -> ResourceInventory:
        """The resource as its stream shows it, devices sorted by id."""
        resource = self.resources[name]
        devices = (self._device(name, device) for _, device in sorted(resource.devices.items()))
        return ResourceInventory(resource=name, connected=resource.connected, devices=tuple(devices))

    def _device(self, name: str, device: PluginDevice) -> Device:
        health, _ = self.health(DeviceKey(name, device.id))
        return Device(resource=name, id=device.id, numa=device.numa, health=health)
