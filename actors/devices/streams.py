"""What the plane sees of devices: the streams, published only where something really changed."""

import time
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from actors.devices.ledger.ledger import Ledger
from actors.devices.machine.machine_manager import MachineKeeper
from actors.devices.model.metrics import DeviceMetrics
from actors.devices.model.types import DeviceKey
from actors.devices.plugins.inventory import Inventory
from protocols.bus import Bus, Op, StateSource, Value
from protocols.ledger import AllocationSource, History
from protocols.messages import devices as messages
from protocols.messages.devices import Device, DeviceHealth, LedgerEvent, Notice, ResourceInventory

RING = 4096
NOTICES_KEPT = 16
LISTS = 64
"""Of the stream whose every event is the whole list of a resource."""


V = TypeVar("V", bound=msgspec.Struct)


@dataclass(frozen=True)
class StreamsOptions:
    bus: Bus
    inventory: Inventory
    ledger: Ledger
    metrics: DeviceMetrics
    history: History


class Streams:
    def __init__(self, options: StreamsOptions) -> None:
        self._options = options
        self._devices: dict[str, ResourceInventory] = {}
        self._allocatable: dict[str, Device] = {}
        self._health: dict[str, DeviceHealth] = {}
        published = {uid: record.allocation for uid, record in options.ledger.pods.items() if record.named}
        self._source = AllocationSource(published, options.history)
        own = options.bus.own
        self._allocations = own(messages.ALLOCATIONS, self._source, ring=RING)
        self._allocations.set_mark(options.history.mark)
        self._device_stream = own(messages.DEVICES, StateSource(self._devices), ring=LISTS)
        self._allocatable_stream = own(messages.ALLOCATABLE, StateSource(self._allocatable), ring=RING)
        self._notices: dict[str, Notice] = {}
        self._notice_stream = own(messages.NOTICES, StateSource(self._notices), ring=NOTICES_KEPT)
        self._noticed = 0
        self._health_stream = own(messages.HEALTH, StateSource(self._health), ring=RING)

    def allocation(self, event: LedgerEvent) -> None:
        """One ledger event, already durable."""
        uid = event.allocation.uid
        if event.deleted:
            self._source.items.pop(uid, None)
            self._allocations.publish(Op.DELETE, uid, b"", event.mark)
        else:
            self._source.items[uid] = event.allocation
            self._allocations.publish(Op.UPSERT, uid, event.allocation, event.mark)

    def notice(self, notice: Notice) -> None:
        """Something the node's owner ought to know."""
        self._noticed += 1
        self._notices[str(self._noticed)] = notice
        self._notice_stream.publish(Op.UPSERT, str(self._noticed), notice)
        if len(self._notices) > NOTICES_KEPT:
            oldest = next(iter(self._notices))
            del self._notices[oldest]
            self._notice_stream.publish(Op.DELETE, oldest, b"")

    def refresh(self, resource: str) -> None:
        """Bring the derived streams up to date with the inventory and ledger of one resource."""
        view = self._options.inventory.view(resource)
        if self._devices.get(resource) != view:
            self._devices[resource] = view
            self._device_stream.publish(Op.UPSERT, resource, view)
        healthy = {DeviceKey(resource, item.id).text: item for item in view.devices if item.health == messages.HEALTHY}
        self._publish_allocatable(replace(resource, self._allocatable, healthy))
        self._refresh_health(resource, view)

    def _publish_allocatable(self, changes: list[tuple[Op, str, Value]]) -> None:
        """The last of the changes that belong together carries a mark: followers show them in one step."""
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
        """`changed_ns` moves only with the health or its message."""
        health, message = self._options.inventory.health(key)
        old = self._health.get(key.text)
        if old is not None and (old.health, old.message) == (health, message):
            return old
        return DeviceHealth(resource=key.resource, id=key.id, health=health, message=message, changed_ns=now)


def replace(resource: str, old: dict[str, V], new: dict[str, V]) -> list[tuple[Op, str, Value]]:
    """Make one resource's part of `old` equal to `new`; returns the difference, what is gone before what came."""
    prefix = f"{resource} "
    gone = [key for key in old if key.startswith(prefix) and key not in new]
    for key in gone:
        del old[key]
    came = {key: value for key, value in new.items() if old.get(key) != value}
    old.update(came)
    return [*((Op.DELETE, key, b"") for key in gone), *((Op.UPSERT, key, value) for key, value in came.items())]


MACHINE_RING = 64


class MachineStreams:
    def __init__(self, bus: Bus, keeper: MachineKeeper) -> None:
        self._keeper = keeper
        self._machine: dict[str, msgspec.Struct] = {messages.NODE: keeper.machine()}
        self._placement: dict[str, msgspec.Struct] = {messages.NODE: keeper.placement()}
        self._machines = bus.own(messages.MACHINE, StateSource(self._machine), ring=MACHINE_RING)
        self._placements = bus.own(messages.PLACEMENT, StateSource(self._placement), ring=MACHINE_RING)

    def refresh(self) -> None:
        """Only what is durable may show: called once a change of the ledger is."""
        for shown, fresh, stream in (
            (self._machine, self._keeper.machine(), self._machines),
            (self._placement, self._keeper.placement(), self._placements),
        ):
            if shown[messages.NODE] != fresh:
                shown[messages.NODE] = fresh
                stream.publish(Op.UPSERT, messages.NODE, fresh)
