"""Devices of one simulated node: who has them, how they are, what pods show of it. Pure.

A device is picked, held and reported as by the device manager and health of a real node, by the same functions. What a
real node has besides: exclusive CPUs and memory, topology policies, preferences of plugins.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from actors.fleet.profiles.expand import NodeTemplate
from protocols.lifecycle.devices.choice import reserve
from protocols.lifecycle.devices.claims import pod_claims
from protocols.lifecycle.devices.event_limiter import AllocatedDevice, Health, HealthEvent, HealthEventLimiter
from protocols.lifecycle.devices.inventory import Inventory
from protocols.lifecycle.devices.ledger import Ledger
from protocols.lifecycle.devices.plan import planned_allocation
from protocols.lifecycle.devices.status_table import StatusTable
from protocols.lifecycle.devices.types import (
    ClaimInfo,
    DeviceKey,
    PluginDevice,
    PluginOptions,
    PodRecord,
    PreparedDevice,
)
from protocols.lifecycle.pods.admission import admit_request
from protocols.lifecycle.pods.claims import references
from protocols.lifecycle.pods.types import PodSpec
from protocols.messages.devices import (
    HEALTHY,
    UNKNOWN,
    ContainerAllocation,
    DeviceHealth,
    PodAllocation,
    PodClaim,
    PrepareClaims,
    ResourceInventory,
)
from protocols.messages.devices import (
    AllocatedDevice as PluginAllocation,
)
from protocols.messages.health import PodHeld, PodResourceStatus, health_key, held_by

DRIVER_GONE = "DRA driver is not connected"
PLUGIN_GRACE_S = 300.0
"""Time from a plugin's end until the node's capacity has no devices of it, as kubelet's endpointStopGracePeriod."""
HEALTH_RATE = 1.0
"""Changes of device health a second that one pod's status shows, beyond a burst."""


class Driver(msgspec.Struct):
    """A DRA driver of the node."""

    devices: dict[str, str]
    """Health by the device's id, DRIVER/POOL/DEVICE."""
    messages: dict[str, str] = msgspec.field(default_factory=dict)
    """Its text about devices, of those that have one."""
    connected: bool = True
    gone_ns: int = 0
    """When it went; 0 again once its slices are deleted."""
    generation: int = 1
    """Generation of its pools."""
    withheld: frozenset[str] = frozenset()
    """Ids of devices that its slices lack."""


class Devices:
    """Devices of plugins and drivers of one node. `now_ns`: wall clock; `now`: seconds of a clock that never steps."""

    def __init__(self, template: NodeTemplate) -> None:
        self._plugins = {plugin.resource: plugin.devices for plugin in template.plugins}
        self.drivers = {driver.driver: Driver(_device_ids(driver.slices)) for driver in template.drivers}
        self._inventory = Inventory()
        self._ledger = Ledger()
        self._held: dict[str, PodHeld] = {}
        self._health: dict[str, DeviceHealth] = {}
        self._table = StatusTable(self._held, self._health, HEALTH_RATE)
        self._limiter = HealthEventLimiter()
        self._sick: dict[DeviceKey, str] = {}
        """Message by device that its plugin reports as unhealthy."""
        for resource in self._plugins:
            self.connect_plugin(resource, True, 0)
        for name in self.drivers:
            self.connect_driver(name, True, 0)

    def inventory(self) -> dict[str, ResourceInventory]:
        """Return the devices of plugins by resource."""
        return {resource: self._inventory.view(resource) for resource in self._plugins}

    # who has them

    def reserve(self, spec: PodSpec) -> None:
        """Give the pod its devices of plugins. Raises AdmissionRejected, NotEnoughResource without any change."""
        request = admit_request(spec, ())
        plan = reserve(request, self._inventory, self._ledger)
        self._ledger.admit(PodRecord(planned_allocation(request, plan, self._inventory)))

    def restore(self, spec: PodSpec, held: PodHeld) -> None:
        """Give a pod from before this process the devices that its status shows, as far as they are free."""
        devices = {container.name: list(self._still_free(container.resources)) for container in held.containers}
        containers = (
            ContainerAllocation(container.name, container.kind, tuple(devices.get(container.name, ())))
            for container in admit_request(spec, ()).containers
        )
        self._ledger.admit(PodRecord(PodAllocation(spec.uid, spec.namespace, spec.name, tuple(containers))))

    def _still_free(self, resources: Iterable[Any]) -> Iterable[PluginAllocation]:
        for resource in resources:
            for id in self._ledger.free(resource.name, resource.ids) if resource.name in self._plugins else ():
                yield PluginAllocation(resource.name, id)

    def hold(self, spec: PodSpec, claims: tuple[PodClaim, ...], initializing: tuple[str, ...]) -> None:
        """Note what the pod holds now: devices of plugins, and those of its claims.

        `initializing`: plain init containers that have yet to complete.
        """
        allocation = self._ledger.pods[spec.uid].allocation
        held = held_by(_with_claims(spec, allocation, claims) if claims else allocation, initializing)
        if held == self.held(spec.uid):
            return
        self._held[spec.uid] = held
        self._table.held_changed(spec.uid)

    def held(self, uid: str) -> PodHeld:
        return self._held.get(uid, PodHeld())

    def release(self, uid: str) -> None:
        self._ledger.release(uid)
        self._limiter.forget(uid)
        if self._held.pop(uid, None) is not None:
            self._table.held_changed(uid)

    # how they are

    def refresh(self, now: float) -> dict[str, PodResourceStatus | None]:
        """Return the device health that pods are to show anew, by uid; None for pods that hold nothing any more."""
        changes = self._table.refresh(now)
        for status in changes.values():
            if status is not None:
                self._observe(status, now)
        return changes

    def events(self, now: float) -> list[HealthEvent]:
        """Return the events to record now."""
        return self._limiter.due(now)

    def next_due(self, now: float) -> float | None:
        """Return when `refresh` or `events` has more to say; None for not before something changes."""
        dues = (self._table.next_due(), self._limiter.next_due(now))
        return min((due for due in dues if due is not None), default=None)

    def set_plugin_health(self, resource: str, ids: Iterable[str], healthy: bool, message: str, now_ns: int) -> None:
        """Let a plugin report some of its devices as unhealthy, or healthy again."""
        for id in ids:
            key = DeviceKey(resource, id)
            if healthy:
                self._sick.pop(key, None)
            else:
                self._sick[key] = message
        self.connect_plugin(resource, self._inventory.connected(resource), now_ns)

    def connect_plugin(self, resource: str, connected: bool, now_ns: int) -> None:
        """Let a plugin report all its devices, or die."""
        if connected:
            devices = [self._as_reported(resource, device) for device in self._plugins[resource]]
            generation = self._inventory.register(resource)
            self._inventory.report(resource, generation, PluginOptions(), devices)
        elif self._inventory.connected(resource):
            serving = self._inventory.resources[resource].serving
            self._inventory.disconnect(resource, serving, now_ns / 1e9)
        for device in self._plugins[resource]:
            key = DeviceKey(resource, device.id)
            health, message = self._inventory.health(key)
            self._note(key, health_key(*key), health, message or self._sick.get(key, ""), now_ns)

    def expire(self, now: float) -> None:
        """Forget the devices of plugins that are gone for long. `now`: seconds of the wall clock."""
        self._inventory.expire(now, PLUGIN_GRACE_S)

    def set_driver_health(self, driver: str, ids: Iterable[str], health: str, message: str, now_ns: int) -> None:
        """Let a DRA driver report a health of some of its devices, which are named DRIVER/POOL/DEVICE."""
        driver_state = self.drivers[driver]
        for id in ids:
            driver_state.devices[id], driver_state.messages[id] = health, message
            if not message:
                del driver_state.messages[id]
            if driver_state.connected:
                self._note(DeviceKey(driver, id), id, health, message, now_ns)

    def connect_driver(self, name: str, connected: bool, now_ns: int) -> None:
        """Let a DRA driver report all its devices, or die."""
        driver = self.drivers[name]
        if driver.connected and not connected:
            driver.gone_ns = now_ns
        driver.connected = connected
        for id, health in driver.devices.items():
            shown = (health, driver.messages.get(id, "")) if connected else (UNKNOWN, DRIVER_GONE)
            self._note(DeviceKey(name, id), id, *shown, now_ns)

    def republish(self, driver: str, withheld: Iterable[str] = ()) -> None:
        """Let a DRA driver publish a new generation of its pools, without some of its devices."""
        driver_state = self.drivers[driver]
        driver_state.generation, driver_state.withheld = driver_state.generation + 1, frozenset(withheld)

    def ids_of(self, plugin: str, driver: str) -> list[str] | None:
        """Return the ids of the devices of a plugin or a driver; None if the node lacks it."""
        if driver:
            return list(self.drivers[driver].devices) if driver in self.drivers else None
        return [device.id for device in self._plugins[plugin]] if plugin in self._plugins else None

    def holders(self, plugin: str, ids: Iterable[str]) -> set[str]:
        """Return the uids of the pods that hold any of these devices of a plugin, or of drivers if it is empty."""
        keys = (health_key(plugin, id) if plugin else id for id in ids)
        return {uid for key in keys for uid in self._table.holders(key)}

    def reports(self) -> Iterable[DeviceHealth]:
        """Return the health of all devices."""
        return self._health.values()

    def _as_reported(self, resource: str, device: PluginDevice) -> PluginDevice:
        sick = DeviceKey(resource, device.id) in self._sick
        return msgspec.structs.replace(device, healthy=False) if sick else device

    def _note(self, device: DeviceKey, key: str, health: str, message: str, now_ns: int) -> None:
        known = self._health.get(key)
        if known is None or (known.health, known.message) != (health, message):
            self._health[key] = DeviceHealth(device.resource, device.id, health, message, now_ns)
            self._table.health_changed(key)

    def _observe(self, status: PodResourceStatus, now: float) -> None:
        observed = set[AllocatedDevice]()
        for container, entries in (*status.containers.items(), ("", status.pod)):
            for entry in entries:
                for resource in entry.resources:
                    device = AllocatedDevice(status.uid, container, entry.name, resource.resourceID)
                    observed.add(device)
                    self._limiter.observe(device, Health(resource.health), resource.message, now)
        self._limiter.forget(status.uid, kept=frozenset(observed))


def published(driver: Driver, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec of a slice as a driver publishes it now: with its generation, without what it withholds."""
    latest = {**spec, "pool": {**spec["pool"], "generation": driver.generation}}
    if driver.withheld:
        latest["devices"] = [device for device in spec.get("devices") or () if _id(spec, device) not in driver.withheld]
    return latest


def _id(spec: Mapping[str, Any], device: Mapping[str, Any]) -> str:
    return f"{spec['driver']}/{spec['pool']['name']}/{device['name']}"


def _device_ids(slices: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    return dict.fromkeys((_id(spec, device) for spec in slices for device in spec.get("devices") or ()), HEALTHY)


def _with_claims(spec: PodSpec, allocation: PodAllocation, claims: tuple[PodClaim, ...]) -> PodAllocation:
    """Return the allocation with the claims, all of which their drivers have prepared."""
    requested = PrepareClaims(spec.uid, spec.namespace, spec.name, claims, references(spec))
    prepared = pod_claims(requested, {claim.entry: _prepared(spec.uid, claim) for claim in claims})
    containers = tuple(
        msgspec.structs.replace(container, claims=prepared.containers.get(container.name, ()))
        for container in allocation.containers
    )
    return msgspec.structs.replace(allocation, containers=containers, claims=prepared.unreferenced)


def _prepared(uid: str, claim: PodClaim) -> ClaimInfo:
    info = ClaimInfo(claim.namespace, claim.name, claim.uid, {uid})
    for result in claim.results:
        device = PreparedDevice(result.pool, result.device, (result.request,))
        info.drivers[result.driver] = (*info.drivers.get(result.driver, ()), device)
    return info
