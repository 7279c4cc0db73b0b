"""Streams of DRA: the drivers, and the health of every device that a claim in use or a finished pod names."""

import asyncio
import time
from collections.abc import Callable, Iterable

import msgspec

from actors.devices.dra.health import HealthCache
from protocols.bus import Bus, Op, Replica, StateSource
from protocols.lifecycle.devices.types import DeviceName
from protocols.messages import devices as messages
from protocols.messages import podworker
from protocols.messages.devices import DeviceHealth, DraDriver
from protocols.messages.health import HeldResource, PodHeld
from protocols.messages.podworker import EndedPod


class FinishedPodDevices:
    """Devices of finished pods. Their claims are unprepared, but their statuses still show device health."""

    def __init__(self, bus: Bus, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._pods = Replica[EndedPod](self._on_pod)
        bus.follow(owner=podworker.OWNER, stream=podworker.ENDED_PODS, sink=self._pods, type=EndedPod)

    def names(self) -> set[DeviceName]:
        return {name for pod in self._pods.items.values() for name in claim_devices(pod.held)}

    def _on_pod(self, op: Op, uid: str, new: EndedPod | None, old: EndedPod | None) -> None:
        if any(pod is not None and claim_devices(pod.held) for pod in (new, old)):
            self._changed()


def claim_devices(held: PodHeld) -> set[DeviceName]:
    """Return the DRA devices among all resources a pod held: a driver may be behind an extended resource, too."""
    resources = [*held.pod, *(resource for container in held.containers for resource in container.resources)]
    return {name for resource in resources for name in _names(resource)}


def _names(resource: HeldResource) -> list[DeviceName]:
    names = [id.split("/") for id in resource.ids]
    return [DeviceName(parts[0], "/".join(parts[1:-1]), parts[-1]) for parts in names if len(parts) > 2 and all(parts)]


RING = 4096
TIMER_SLACK_S = 0.01
"""A timer may fire a little early; an expiry may be published a little late."""


class DraStreamsOptions(msgspec.Struct, frozen=True):
    """Contents of the streams."""

    bus: Bus
    health_cache: HealthCache
    names: Callable[[], set[DeviceName]]
    """Returns the devices whose health is published."""
    clock: Callable[[], float]
    on_reports: Callable[[bool], None]
    """Called after drivers reported; True if any health changed."""


class DraStreams:
    """Publishes drivers and health; reports within a moment are one event of the stream."""

    def __init__(self, options: DraStreamsOptions) -> None:
        self._options = options
        self._health: dict[str, DeviceHealth] = {}
        self._drivers: dict[str, DraDriver] = {}
        self._names = options.names()
        self._health.update({name.text: self._initial_health(name) for name in self._names})
        self._timer: asyncio.TimerHandle | None = None
        own = options.bus.own
        self._health_stream = own(messages.DRA_HEALTH, StateSource(self._health), ring=RING)
        self._driver_stream = own(messages.DRA_DRIVERS, StateSource(self._drivers), ring=RING)

    def driver(self, driver: DraDriver) -> None:
        if self._drivers.get(driver.name) != driver:
            self._drivers[driver.name] = driver
            self._driver_stream.publish(Op.UPSERT, driver.name, driver)

    def update_devices(self) -> None:
        """Add and remove devices after claims or finished pods changed."""
        names = self._options.names()
        gone, self._names = self._names - names, names
        for name in sorted(gone):
            if self._health.pop(name.text, None) is not None:
                self._health_stream.publish(Op.DELETE, name.text, b"")
        self._refresh(names)

    def refresh(self, driver: str) -> None:
        """Publish the driver's devices after its reports changed."""
        self._refresh([name for name in self._names if name.driver == driver])

    def _refresh(self, names: Iterable[DeviceName]) -> None:
        """Publish the current state of those that differ."""
        now, wall, changed = self._options.clock(), time.time_ns(), False
        for name in names:
            health, message = self._options.health_cache.health(name, now)
            old = self._health.get(name.text)
            if old is None or (old.health, old.message) != (health, message):
                value = DeviceHealth(resource="", id=name.text, health=health, message=message, changed_ns=wall)
                self._health[name.text] = value
                self._health_stream.publish(Op.UPSERT, name.text, value)
                changed = True
        self._options.on_reports(changed)
        self._set_timer(now)

    def _set_timer(self, now: float) -> None:
        """Set one timer for the earliest expiry of a device in use."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline = self._options.health_cache.deadline(self._names, now)
        if deadline is not None:
            delay = deadline - now + TIMER_SLACK_S
            self._timer = asyncio.get_running_loop().call_later(delay, lambda: self._refresh(self._names))

    def _initial_health(self, name: DeviceName) -> DeviceHealth:
        """Return the health of a device that was in use before a restart."""
        health, message = self._options.health_cache.health(name, self._options.clock())
        return DeviceHealth(resource="", id=name.text, health=health, message=message, changed_ns=time.time_ns())

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
