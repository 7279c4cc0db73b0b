"""Devices of plugins and of DRA drivers: health with its history, holders, and the connections behind them."""

from collections import deque
from collections.abc import Iterable, Mapping

import msgspec

from protocols.bounded import BoundedMap
from protocols.messages import devices as messages
from protocols.messages.devices import DeviceHealth, DraDriver, PluginView, PodAllocation, ResourceInventory
from supervisor.client.drivers import claims_of, driver_state, why_unknown

HISTORY, DEVICES_WITH_HISTORY = 20, 2_000
"""Health changes retained per device, and devices of which they are."""
ORDER = {messages.UNHEALTHY: 0, messages.UNKNOWN: 1, messages.HEALTHY: 2}


class DeviceTile(msgspec.Struct, frozen=True):
    """One tile. `source` is a resource, or a driver; `id` of a driver's device is DRIVER/POOL/DEVICE."""

    source: str
    id: str
    numa: tuple[int, ...]
    health: str
    message: str
    changed_ns: int
    pods: tuple[str, ...]
    containers: tuple[str, ...]
    dra: bool

    @property
    def key(self) -> tuple[str, str]:
        return self.source, self.id

    @property
    def unused(self) -> bool:
        """True of a DRA device whose health nobody reports since no claim on this node uses it."""
        return self.dra and not self.pods and not self.changed_ns and self.health == messages.UNKNOWN

    @property
    def name(self) -> str:
        return self.id.rpartition("/")[2] if self.dra else self.id


class SliceDevice(msgspec.Struct, frozen=True):
    """A device that a ResourceSlice of this node publishes."""

    driver: str
    pool: str
    name: str
    numa: tuple[int, ...] = ()


class Group(msgspec.Struct, frozen=True):
    """Devices of one resource or driver on one NUMA node."""

    source: str
    numa: tuple[int, ...]
    devices: tuple[DeviceTile, ...]
    connection: str
    """State of the plugin or driver."""


class DeviceReplicas:
    """Replicas of the device manager's streams, which the feed fills, and what follows from them."""

    def __init__(self) -> None:
        self.inventory: Mapping[str, ResourceInventory] = {}
        self.health: Mapping[str, DeviceHealth] = {}
        self.allocations: Mapping[str, PodAllocation] = {}
        self.plugins: Mapping[str, PluginView] = {}
        self.drivers: Mapping[str, DraDriver] = {}
        self.dra_health: Mapping[str, DeviceHealth] = {}
        self.slices: dict[str, tuple[SliceDevice, ...]] = {}
        """By name of the slice."""
        self._history = BoundedMap[tuple[str, str], deque[tuple[int, str, str]]](DEVICES_WITH_HISTORY)
        self._devices: list[DeviceTile] | None = None

    def changed(self) -> None:
        """Compute anew when the devices are asked for next."""
        self._devices = None

    def reported(self, health: DeviceHealth, now_ns: int) -> None:
        """Add a change of health to the history of its device; the longest unchanged device makes room."""
        source, id = health.resource or health.id.partition("/")[0], health.id
        entries = self._history.get_or_make((source, id), lambda: deque(maxlen=HISTORY))
        if not entries or entries[-1][1:] != (health.health, health.message):
            entries.append((health.changed_ns or now_ns, health.health, health.message))

    def history(self, device: DeviceTile) -> list[tuple[int, str, str]]:
        """Return (time in ns, health, message), the newest first."""
        return list(reversed(self._history.get(device.key, ())))

    def all(self) -> list[DeviceTile]:
        """Return every device, by source, NUMA node and id."""
        if self._devices is None:
            self._devices = sorted([*self._of_plugins(), *self._of_drivers()], key=_place)
        return self._devices

    def groups(self, devices: Iterable[DeviceTile]) -> list[Group]:
        """Return devices by source and NUMA node, in their order."""
        devices_by_group: dict[tuple[str, tuple[int, ...]], list[DeviceTile]] = {}
        dra: dict[str, bool] = {}
        for device in devices:
            devices_by_group.setdefault((device.source, device.numa), []).append(device)
            dra[device.source] = device.dra
        return [
            Group(source, numa, tuple(members), self.connection(source, dra[source]))
            for (source, numa), members in devices_by_group.items()
        ]

    def connection(self, source: str, dra: bool) -> str:
        """Return the state of the plugin or driver behind a source."""
        if dra:
            driver = self.drivers.get(source)
            return driver_state(driver) if driver else "gone"
        order = (messages.PLUGIN_SERVES, messages.PLUGIN_SILENT, messages.PLUGIN_REPLACED, messages.PLUGIN_GONE)
        states = [view.state for view in self.plugins.values() if view.resource == source]
        return min(states, key=order.index, default="gone")

    def of_pod(self, uid: str) -> list[str]:
        """Return the devices of a pod, such as `gpu-0` or `gpu.example.com/pool/gpu-1`."""
        pod = self.allocations.get(uid)
        if pod is None:
            return []
        plain = [device.id for container in pod.containers for device in container.devices]
        return plain + sorted({device.id for claim in claims_of(pod) for device in claim.devices})

    def _of_plugins(self) -> Iterable[DeviceTile]:
        numa = {(d.resource, d.id): d.numa for entry in self.inventory.values() for d in entry.devices}
        holders: dict[tuple[str, str], list[tuple[str, str]]] = {}
        for pod in self.allocations.values():
            for container in pod.containers:
                for held in container.devices:
                    numa.setdefault((held.resource, held.id), held.numa)
                    name = (f"{pod.namespace}/{pod.name}", container.name)
                    holders.setdefault((held.resource, held.id), []).append(name)
        for (resource, id), nodes in numa.items():
            state = self.health.get(f"{resource} {id}")
            yield _device(resource, id, nodes, state, holders.get((resource, id), []), "", dra=False)

    def _of_drivers(self) -> Iterable[DeviceTile]:
        holders: dict[str, list[tuple[str, str]]] = {}
        for pod in self.allocations.values():
            for container, claim in _claims(pod):
                for used in claim.devices:
                    name = (f"{pod.namespace}/{pod.name}", container)
                    holders.setdefault(used.id, []).append(name)
        published = {f"{d.driver}/{d.pool}/{d.name}": d.numa for devices in self.slices.values() for d in devices}
        for id in published.keys() | holders.keys() | self.dra_health.keys():
            source = id.partition("/")[0]
            state, users = self.dra_health.get(id), holders.get(id, [])
            why = why_unknown(self.drivers.get(source)) if users else "no claim on this node uses it"
            yield _device(source, id, published.get(id, ()), state, users, why, dra=True)


def _device(
    source: str, id: str, numa: tuple[int, ...], state: DeviceHealth | None, holders: list[tuple[str, str]], why: str,
    *, dra: bool,
) -> DeviceTile:  # fmt: skip
    health = state.health if state else messages.UNKNOWN
    message = (state.message if state else "") or (why if health == messages.UNKNOWN else "")
    pods, containers = tuple(dict.fromkeys(p for p, _ in holders)), tuple(dict.fromkeys(c for _, c in holders if c))
    return DeviceTile(source, id, numa, health, message, state.changed_ns if state else 0, pods, containers, dra)


def _claims(pod: PodAllocation) -> Iterable[tuple[str, messages.PreparedClaim]]:
    for container in pod.containers:
        for claim in container.claims:
            yield container.name, claim
    for claim in pod.claims:
        yield "", claim


def _place(device: DeviceTile) -> tuple[object, ...]:
    digits = device.name[len(device.name.rstrip("0123456789")) :]
    stem = device.name[: len(device.name) - len(digits)]
    return device.source, device.numa, device.id[: len(device.id) - len(device.name)], stem, int(digits[:18] or 0)
