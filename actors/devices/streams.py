"""Streams of the device manager. An event is published only if something changed."""

import time
from typing import TypeVar

import msgspec

from actors.devices.machine.machine_manager import MachineManager
from actors.devices.model.metrics import DeviceMetrics
from protocols.bus import Bus, Op, StateSource, Value
from protocols.lifecycle.devices.inventory import Inventory
from protocols.lifecycle.devices.ledger import Ledger
from protocols.lifecycle.devices.types import DeviceKey
from protocols.messages import devices as messages
from protocols.messages.allocation_history import AllocationHistory, AllocationSource
from protocols.messages.devices import Device, DeviceHealth, LedgerEvent, NodeNotice, ResourceInventory

RING = 4096
MAX_NOTICES = 16
DEVICES_RING = 64
"""Ring of a stream whose every event is the whole list of a resource."""


V = TypeVar("V", bound=msgspec.Struct)


class DeviceStreamsOptions(msgspec.Struct, frozen=True):
    """Contents of the streams."""

    bus: Bus
    inventory: Inventory
    ledger: Ledger
    metrics: DeviceMetrics
    history: AllocationHistory


class DeviceStreams:
    """The streams `devices`, `allocatable`, `health` and `allocations`."""

    def __init__(self, options: DeviceStreamsOptions) -> None:
        self._options = options
        self._devices: dict[str, ResourceInventory] = {}
        self._allocatable: dict[str, Device] = {}
        self._health: dict[str, DeviceHealth] = {}
        published = {uid: record.allocation for uid, record in options.ledger.pods.items() if record.has_pod_name}
        self._source = AllocationSource(published, options.history)
        own = options.bus.own
        self._allocations = own(messages.ALLOCATIONS, self._source, ring=RING)
        self._allocations.set_mark(options.history.mark)
        self._device_stream = own(messages.DEVICES, StateSource(self._devices), ring=DEVICES_RING)
        self._allocatable_stream = own(messages.ALLOCATABLE, StateSource(self._allocatable), ring=RING)
        self._notices: dict[str, NodeNotice] = {}
        self._notice_stream = own(messages.NOTICES, StateSource(self._notices), ring=MAX_NOTICES)
        self._last_notice = options.bus.epoch
        """No key is one of an earlier incarnation: to followers an equal value of it would be no change."""
        self._health_stream = own(messages.HEALTH, StateSource(self._health), ring=RING)

    def allocation(self, event: LedgerEvent) -> None:
        """Publish a durable ledger event."""
        uid = event.allocation.uid
        if event.deleted:
            self._source.items.pop(uid, None)
            self._allocations.publish(Op.DELETE, uid, b"", event.mark)
        else:
            self._source.items[uid] = event.allocation
            self._allocations.publish(Op.UPSERT, uid, event.allocation, event.mark)

    def notice(self, notice: NodeNotice) -> None:
        """Publish a notice for the node's owner, and drop the oldest one over the limit."""
        self._last_notice += 1
        self._notices[str(self._last_notice)] = notice
        self._notice_stream.publish(Op.UPSERT, str(self._last_notice), notice)
        if len(self._notices) > MAX_NOTICES:
            oldest = next(iter(self._notices))
            del self._notices[oldest]
            self._notice_stream.publish(Op.DELETE, oldest, b"")

    def refresh(self, resource: str) -> None:
        """Publish what changed of one resource in inventory and ledger."""
        view = self._options.inventory.view(resource)
        if self._devices.get(resource) != view:
            self._devices[resource] = view
            self._device_stream.publish(Op.UPSERT, resource, view)
        healthy = {DeviceKey(resource, item.id).text: item for item in view.devices if item.health == messages.HEALTHY}
        self._publish_allocatable(replace(resource, self._allocatable, healthy))
        self._refresh_health(resource, view)

    def _publish_allocatable(self, changes: list[tuple[Op, str, Value]]) -> None:
        """Publish changes that belong together; the last one carries the mark, so that followers apply them at once."""
        for left, (op, key, value) in zip(reversed(range(len(changes))), changes, strict=True):
            self._allocatable_stream.publish(op, key, value, 0 if left else self._allocatable_stream.mark + 1)

    def _refresh_health(self, resource: str, view: ResourceInventory) -> None:
        keys = {DeviceKey(resource, device.id) for device in view.devices}
        keys |= {key for key in self._options.ledger.allocated() if key.resource == resource}
        now = time.time_ns()
        fresh = {key.text: self._device_health(key, now) for key in sorted(keys)}
        for text in [text for text in self._health if text.startswith(f"{resource} ") and text not in fresh]:
            self._options.metrics.forget(self._health[text])
        for op, text, value in replace(resource, self._health, fresh):
            if isinstance(value, DeviceHealth):
                self._options.metrics.health(value)
            self._health_stream.publish(op, text, value)

    def _device_health(self, key: DeviceKey, now: int) -> DeviceHealth:
        """Return the health of a device. `changed_ns` changes only with health or message."""
        health, message = self._options.inventory.health(key)
        old = self._health.get(key.text)
        if old is not None and (old.health, old.message) == (health, message):
            return old
        return DeviceHealth(resource=key.resource, id=key.id, health=health, message=message, changed_ns=now)


def replace(resource: str, old: dict[str, V], new: dict[str, V]) -> list[tuple[Op, str, Value]]:
    """Make one resource's part of `old` equal to `new`. Return the difference, deletions first."""
    prefix = f"{resource} "
    removed = [key for key in old if key.startswith(prefix) and key not in new]
    for key in removed:
        del old[key]
    changed = {key: value for key, value in new.items() if old.get(key) != value}
    old.update(changed)
    return [*((Op.DELETE, key, b"") for key in removed), *((Op.UPSERT, key, value) for key, value in changed.items())]


MACHINE_RING = 64


class MachineStreams:
    """The streams of the machine's CPUs and memory, and of what is given out of them."""

    def __init__(self, bus: Bus, machine: MachineManager) -> None:
        self._manager = machine
        self._machine: dict[str, msgspec.Struct] = {messages.NODE: machine.machine()}
        self._placement: dict[str, msgspec.Struct] = {messages.NODE: machine.placement()}
        self._machines = bus.own(messages.MACHINE, StateSource(self._machine), ring=MACHINE_RING)
        self._placements = bus.own(messages.PLACEMENT, StateSource(self._placement), ring=MACHINE_RING)

    def refresh(self) -> None:
        """Publish the machine and the shared pool. Call it only once the ledger's change is durable."""
        for published, current, stream in (
            (self._machine, self._manager.machine(), self._machines),
            (self._placement, self._manager.placement(), self._placements),
        ):
            if published[messages.NODE] != current:
                published[messages.NODE] = current
                stream.publish(Op.UPSERT, messages.NODE, current)
