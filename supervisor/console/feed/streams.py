"""Follow the streams of devices and pleg on the bus."""

import time
from collections.abc import Callable
from typing import Any

import msgspec

from protocols.bus import Bus, Op, Replica, StreamSink
from protocols.messages import devices, pleg
from protocols.messages.devices import DeviceHealth, DraDriver, PluginView, PodAllocation, ResourceInventory
from protocols.messages.pleg import PlegState, PodLifecycleEvent
from supervisor.console.model.world import World

STREAMS: tuple[tuple[str, str, type[msgspec.Struct]], ...] = (
    ("inventory", devices.DEVICES, ResourceInventory),
    ("health", devices.HEALTH, DeviceHealth),
    ("allocations", devices.ALLOCATIONS, PodAllocation),
    ("plugins", devices.PLUGINS, PluginView),
    ("drivers", devices.DRA_DRIVERS, DraDriver),
    ("dra_health", devices.DRA_HEALTH, DeviceHealth),
)
"""Fields of the model of devices, the streams behind them, and their types."""


def follow_all(bus: Bus, world: World) -> None:
    """Follow for as long as the bus is open; an owner that is away is waited for."""
    for field, stream, type in STREAMS:
        replica: Replica[Any] = Replica(_device_change(world, stream))
        setattr(world.devices, field, replica.items)
        bus.follow(owner=devices.OWNER, stream=stream, sink=replica, type=type)
    states: Replica[PlegState] = Replica(lambda op, key, new, old: _pleg_state(world, new))
    bus.follow(owner=pleg.OWNER, stream=pleg.PLEG_STATE, sink=states, type=PlegState)
    bus.follow(owner=pleg.OWNER, stream=pleg.POD_LIFECYCLE, sink=LifecycleSink(world), type=PodLifecycleEvent)


def _device_change(world: World, stream: str) -> Callable[[Op, str, Any, Any], None]:
    reports_health = stream in (devices.HEALTH, devices.DRA_HEALTH)

    def change(op: Op, key: str, new: Any, old: Any) -> None:
        if reports_health and new is not None:
            world.devices.reported(new, time.time_ns())
        world.devices.changed()
        world.changed()

    return change


def _pleg_state(world: World, state: PlegState | None) -> None:
    if state is not None:
        world.pleg.switched(state, time.time())
        world.changed()


class LifecycleSink(StreamSink[PodLifecycleEvent]):
    """Sink of an edge stream: only events count."""

    def __init__(self, world: World) -> None:
        self._world = world

    def on_snapshot(self, items: list[tuple[str, PodLifecycleEvent]], mark: int) -> None:
        """An edge stream retains nothing."""

    def on_event(self, event: Any) -> None:
        if event.value is not None:
            self._world.pleg.happened(event.value, time.time())
            self._world.changed()

    def on_synced(self, synced: bool) -> None:
        self._world.pleg.synced = synced
        self._world.changed()
