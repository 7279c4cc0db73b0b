"""The devices of a running plane, as the streams of its device manager show them: a row per device."""

import asyncio

import msgspec

from protocols.messages import devices as messages
from protocols.messages.devices import DeviceHealth, PodAllocation, ResourceInventory
from supervisor.client.connection import Asking, held


class DeviceRow(msgspec.Struct, frozen=True):
    """A device of a plugin; `pod` and `containers` are empty while nobody holds it."""

    resource: str
    device: str
    numa: tuple[int, ...]
    health: str
    message: str
    pod: str
    containers: tuple[str, ...]

    def __repr__(self) -> str:
        """Return it as a failed assertion of a test shows it."""
        why = f" ({self.message})" if self.message else ""
        return f"<{self.resource} {self.device} {self.health}{why}, {f'held by {self.pod}' if self.pod else 'free'}>"


async def device_rows(asking: Asking) -> list[DeviceRow]:
    """Read the streams of the device manager once. Raises NotRunning."""
    inventory, health, pods = await asyncio.gather(
        held(asking.bus, messages.DEVICES, ResourceInventory),
        held(asking.bus, messages.HEALTH, DeviceHealth),
        held(asking.bus, messages.ALLOCATIONS, PodAllocation),
    )
    return rows_of(inventory, health, pods)


def rows_of(
    inventory: dict[str, ResourceInventory], health: dict[str, DeviceHealth], pods: dict[str, PodAllocation]
) -> list[DeviceRow]:
    """Return a row per device that is reported or held, sorted."""
    numa = {(item.resource, item.id): item.numa for entry in inventory.values() for item in entry.devices}
    holders: dict[tuple[str, str], tuple[str, list[str]]] = {}
    for pod in pods.values():
        for container in pod.containers:
            for item in container.devices:
                numa.setdefault((item.resource, item.id), item.numa)
                holder = holders.setdefault((item.resource, item.id), (f"{pod.namespace}/{pod.name}", []))
                holder[1].append(container.name)
    states = {(item.resource, item.id): item for item in health.values()}
    return [_row(key, numa[key], states.get(key), holders.get(key, ("", []))) for key in sorted(numa)]


def _row(
    key: tuple[str, str], numa: tuple[int, ...], state: DeviceHealth | None, holder: tuple[str, list[str]]
) -> DeviceRow:
    return DeviceRow(
        resource=key[0],
        device=key[1],
        numa=numa,
        health=state.health if state else messages.UNKNOWN,
        message=state.message if state else "",
        pod=holder[0],
        containers=tuple(holder[1]),
    )
