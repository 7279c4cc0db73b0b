"""All registered DRA driver instances: registration, selection of the serving instance, and their health streams."""

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

import msgspec

from actors.devices.calls.health import HealthDifference
from actors.devices.calls.log import CallLog, StreamMessage
from actors.devices.dra.driver_instance import DriverInstance, DriverInstanceOptions, choose_health, choose_service
from actors.devices.dra.errors import DriverFailed, DriverMissing, HealthUnimplemented
from actors.devices.dra.health import DeviceReport, HealthCache, Reports
from actors.devices.dra.metrics import DraMetrics
from actors.devices.dra.types import DraLimits
from actors.devices.model.errors import RegistrationRejected
from protocols.messages.devices import HEALTHY, UNHEALTHY, UNKNOWN, DraDriver
from protocols.process.tasks import awaited, cancel, restarted, wait_set
from protocols.wire.plugins import NODE_HEALTH

STREAM_ENDED = "its devices are Unknown until the stream is opened again"
READ_BATCH = 2000
"""Devices read before other tasks get their turn, so that a list of 100,000 does not block the loop."""
MAX_TIMEOUT_S = 366 * 86400.0
_HEALTH = {0: UNKNOWN, 1: HEALTHY, 2: UNHEALTHY}


class HealthMonitorOptions(msgspec.Struct, frozen=True):
    """Target of health reports, and the pause in seconds before a stream is opened again."""

    health_cache: HealthCache
    clock: Callable[[], float]
    changed: Callable[[str], None]
    """Called with the driver's name after its reports may have changed."""
    metrics: DraMetrics
    log: logging.Logger
    reopen: float


class HealthMonitor:
    """Follows the health stream of each instance, one task each."""

    def __init__(self, options: HealthMonitorOptions) -> None:
        self._options = options
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._logged: dict[str, str] = {}

    def follow(self, instance: DriverInstance) -> None:
        """Follow the health stream of an instance, if there is a service to follow."""
        if instance.options.health:
            following = restarted(
                lambda: self._run(instance), "driver health", instance.options.driver, first=self._options.reopen
            )
            self._tasks[instance.options.number] = awaited(following, "driver health")

    async def unfollow(self, instance: DriverInstance) -> None:
        task = self._tasks.pop(instance.options.number, None)
        if task is not None:
            await cancel(task)

    async def _run(self, instance: DriverInstance) -> None:
        while not instance.closed:
            while not instance.connected:
                await instance.wait_changed()
            try:
                await self._read_stream(instance)
            except HealthUnimplemented as error:
                if not instance.options.health_advertised:
                    return
                instance.record_health(StreamMessage("it is not called again", "UNIMPLEMENTED", str(error)))
                self._log_once(instance.options.driver, f"{error}; it is not called again")
                return
            except DriverFailed as error:
                instance.record_health(StreamMessage(STREAM_ENDED, error.status, str(error)))
                self._log_once(instance.options.driver, str(error))
            with suppress(TimeoutError):  # a new connection need not wait
                async with asyncio.timeout(self._options.reopen):  # wait_for may swallow a cancellation (bpo-37658)
                    await instance.wait_changed()

    async def _read_stream(self, instance: DriverInstance) -> None:
        health_cache, driver, number = self._options.health_cache, instance.options.driver, instance.options.number
        health_cache.open_stream(driver, number)
        try:
            async for message in instance.health():
                instance.health_reported()
                self._options.metrics.messages.labels(driver).inc()
                await self._apply(instance, message)
        finally:
            health_cache.close_stream(driver, number)
            self._options.changed(driver)

    async def _apply(self, instance: DriverInstance, message: Any) -> None:
        health_cache, driver, number = self._options.health_cache, instance.options.driver, instance.options.number
        complete = instance.options.health == NODE_HEALTH
        whole = complete or not health_cache.is_reported(driver, number)  # the first one takes over from others
        reports: Reports | None = {} if whole else None
        devices = _statuses(message) if complete else _healths(message)
        now, difference = self._options.clock(), HealthDifference()
        while (part := list(islice(devices, READ_BATCH))) or not difference.parts:
            if difference.parts:
                await asyncio.sleep(0)
            difference.add(len(part), health_cache.apply(driver, number, part, now, reports))
        dropped = health_cache.replace(driver, number, reports) if reports is not None else ()
        instance.record_health(difference.report(dropped))
        self._logged.pop(driver, None)
        health_cache.drop_expired(driver, number, now)
        self._options.changed(driver)

    def _log_once(self, driver: str, text: str) -> None:
        """Log an error once per streak."""
        if self._logged.get(driver) != text:
            self._options.log.warning("DRA driver health stream failed driver=%s error=%s", driver, text)
        self._logged[driver] = text


def _healths(message: Any) -> Iterator[DeviceReport]:
    """Read DRAResourceHealth. The driver's timestamps are ignored, and its timeouts are clamped."""
    for item in message.devices:
        timeout = float(min(max(item.health_check_timeout_seconds, 0), MAX_TIMEOUT_S))
        health = _HEALTH.get(item.health, UNKNOWN)
        yield DeviceReport(item.device.pool_name, item.device.device_name, health, item.message, timeout)


def _statuses(message: Any) -> Iterator[DeviceReport]:
    """Read NodeHealth: a report is valid as long as the stream is open."""
    for item in message.devices:
        yield DeviceReport(item.pool_name, item.device_name, item.health, item.message, float("inf"))


MAX_INSTANCES = 16
"""Connected instances of one driver. Of disconnected ones the oldest are dropped."""


class DriverRegistryOptions(msgspec.Struct, frozen=True):
    """Parts of the DRA manager that instances use; `changed` publishes a driver."""

    health_monitor: HealthMonitor
    limits: DraLimits
    metrics: DraMetrics
    changed: Callable[[DraDriver], None]
    log: logging.Logger
    follow_health: bool
    """Whether to follow health streams."""
    calls: CallLog = msgspec.field(default_factory=CallLog)


class DriverRegistry:
    """Implements the watcher's Handler."""

    def __init__(self, options: DriverRegistryOptions) -> None:
        self._options = options
        self._instances: dict[str, list[DriverInstance]] = {}
        self._numbers = itertools.count(1)
        self._wait_until = time.monotonic() + options.limits.reconnect_wait
        self._change = asyncio.Event()

    # called by the watcher

    def validate(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        choose_service(name, endpoint, versions)
        mine = self._instances.get(name, [])
        if any(instance.options.endpoint == endpoint for instance in mine):
            raise RegistrationRejected(f"endpoint {endpoint} already registered for DRA driver plugin {name}")
        if len([instance for instance in mine if instance.connected]) >= MAX_INSTANCES:
            raise RegistrationRejected(f"DRA driver plugin {name} has {MAX_INSTANCES} instances already")

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        """Add an instance. It need not be reachable yet; it is dialled until it is deregistered."""
        self.validate(name, endpoint, versions)
        await self._drop_disconnected(name)
        instance = DriverInstance(
            DriverInstanceOptions(
                driver=name,
                endpoint=endpoint,
                service=choose_service(name, endpoint, versions),
                health=(choose_health(versions) or NODE_HEALTH) if self._options.follow_health else "",
                health_advertised=bool(choose_health(versions)),
                number=next(self._numbers),
                limits=self._options.limits,
                metrics=self._options.metrics,
                calls=self._options.calls,
                on_changed=lambda: self._publish(name),
            )
        )
        self._instances.setdefault(name, []).append(instance)
        self._options.health_monitor.follow(instance)
        self._publish(name)

    async def _drop_disconnected(self, name: str) -> None:
        mine = self._instances.get(name, [])
        dead = [item for item in mine if not item.connected]
        for instance in dead[: max(0, len(mine) - MAX_INSTANCES + 1)]:
            await self.deregister(name, instance.options.endpoint)

    async def deregister(self, name: str, endpoint: str) -> None:
        for instance in [item for item in self._instances.get(name, []) if item.options.endpoint == endpoint]:
            self._instances[name].remove(instance)
            await self._options.health_monitor.unfollow(instance)
            await instance.close()
        self._publish(name)

    # called by claim preparation

    def serving(self, driver: str) -> DriverInstance:
        """Return the newest connected instance, else the newest one. Raises DriverMissing."""
        instances = self._instances.get(driver)
        if not instances:
            raise DriverMissing(f"DRA driver {driver} is not registered")
        return max(instances, key=lambda item: (item.connected, item.options.number))

    async def wait_registered(self, driver: str) -> None:
        """Wait, until a deadline after the manager's start, for a driver that may register again."""
        while not self._view(driver).connected and (left := self._wait_until - time.monotonic()) > 0:
            self._change.clear()
            await wait_set(self._change, left)

    async def close(self) -> None:
        everyone = [instance for mine in self._instances.values() for instance in mine]
        for instance in everyone:
            await self._options.health_monitor.unfollow(instance)
        await asyncio.gather(*(instance.close() for instance in everyone))

    def _publish(self, driver: str) -> None:
        self._change.set()
        self._options.changed(self._view(driver))

    def _view(self, driver: str) -> DraDriver:
        instances = self._instances.get(driver, [])
        if not instances:
            return DraDriver(driver, connected=False)
        serving = self.serving(driver)
        return DraDriver(
            name=driver,
            connected=any(instance.connected for instance in instances),
            version=serving.options.service,
            health=serving.options.health if serving.serves_health else "",
            endpoints=tuple(instance.options.endpoint for instance in instances),
        )
