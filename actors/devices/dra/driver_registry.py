"""Listens to the health streams of driver instances, one task each, as long as the instance is registered."""

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from actors.devices.dra.driver_instance import Instance, InstanceOptions, choose_health, choose_service
from actors.devices.dra.errors import DriverFailed, DriverMissing, HealthUnimplemented
from actors.devices.dra.health import HealthBook, Said
from actors.devices.dra.metrics import DraMetrics
from actors.devices.dra.types import DraLimits
from actors.devices.model.errors import RegistrationRefused
from protocols.messages.devices import HEALTHY, UNHEALTHY, UNKNOWN, DraDriver
from protocols.wire.dra import NODE_HEALTH

AT_ONCE = 2000
"""Devices read before others have their turn: a list of 100,000 does not hold up the loop."""
LONGEST_TIMEOUT = 366 * 86400.0
_HEALTH = {0: UNKNOWN, 1: HEALTHY, 2: UNHEALTHY}


@dataclass(frozen=True)
class HearingOptions:
    book: HealthBook
    clock: Callable[[], float]
    changed: Callable[[str], None]
    """Something a driver says may be new."""
    metrics: DraMetrics
    log: logging.Logger
    reopen: float


class Hearing:
    def __init__(self, options: HearingOptions) -> None:
        self._options = options
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._told: dict[str, str] = {}

    def begin(self, instance: Instance) -> None:
        """Drivers that advertise no health are not asked."""
        if instance.options.health:
            name = f"health of {instance.options.driver}"
            self._tasks[instance.options.number] = asyncio.create_task(self._run(instance), name=name)

    async def end(self, instance: Instance) -> None:
        task = self._tasks.pop(instance.options.number, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self, instance: Instance) -> None:
        while not instance.gone:
            while not instance.connected:
                await instance.changed()
            try:
                await self._listen(instance)
            except HealthUnimplemented as error:
                self._tell(instance.options.driver, f"{error}; it is not asked again")
                return
            except DriverFailed as error:
                self._tell(instance.options.driver, str(error))
            with suppress(TimeoutError):  # a connection that comes anew need not wait
                async with asyncio.timeout(self._options.reopen):  # wait_for may swallow the end of this task
                    await instance.changed()

    async def _listen(self, instance: Instance) -> None:
        book, driver, number = self._options.book, instance.options.driver, instance.options.number
        book.opened(driver, number)
        try:
            async for message in instance.health():
                self._options.metrics.messages.labels(driver).inc()
                await self._take(instance, message)
        finally:
            book.closed(driver, number)
            self._options.changed(driver)

    async def _take(self, instance: Instance, message: Any) -> None:
        book, driver, number = self._options.book, instance.options.driver, instance.options.number
        complete = instance.options.health == NODE_HEALTH
        if complete:
            book.replaced(driver, number)
        devices = _statuses(message) if complete else _healths(message)
        now = self._options.clock()
        book.heard(driver, number, islice(devices, AT_ONCE), now)
        while part := list(islice(devices, AT_ONCE)):
            await asyncio.sleep(0)
            book.heard(driver, number, part, now)
        self._told.pop(driver, None)
        book.forget_expired(driver, number, now)
        self._options.changed(driver)

    def _tell(self, driver: str, text: str) -> None:
        """Once per trouble, not once per try."""
        if self._told.get(driver) != text:
            self._options.log.warning("DRA driver %s: %s", driver, text)
        self._told[driver] = text


def _healths(message: Any) -> Iterator[Said]:
    """DRAResourceHealth. The driver's own clock is not ours to believe, nor are numbers of the future."""
    for item in message.devices:
        timeout = float(min(max(item.health_check_timeout_seconds, 0), LONGEST_TIMEOUT))
        health = _HEALTH.get(item.health, UNKNOWN)
        yield Said(item.device.pool_name, item.device.device_name, health, item.message, timeout)


def _statuses(message: Any) -> Iterator[Said]:
    """NodeHealth: as long as the stream lives, what it said last is so."""
    for item in message.devices:
        yield Said(item.pool_name, item.device_name, item.health, item.message, float("inf"))


MOST_INSTANCES = 16
"""Of one driver, that answer; of those that do not, the oldest are dropped."""


@dataclass(frozen=True)
class DriversOptions:
    hearing: Hearing
    limits: DraLimits
    metrics: DraMetrics
    changed: Callable[[DraDriver], None]
    log: logging.Logger
    listen: bool
    """Whether drivers are asked for the health of their devices."""


class Drivers:
    """A watcher.types.Handler."""

    def __init__(self, options: DriversOptions) -> None:
        self._options = options
        self._instances: dict[str, list[Instance]] = {}
        self._numbers = itertools.count(1)
        self._patient_until = time.monotonic() + options.limits.come_back
        self._change = asyncio.Event()

    # told by the watcher

    def validate(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        choose_service(name, endpoint, versions)
        mine = self._instances.get(name, [])
        if any(instance.options.endpoint == endpoint for instance in mine):
            raise RegistrationRefused(f"endpoint {endpoint} already registered for DRA driver plugin {name}")
        if len([instance for instance in mine if instance.connected]) >= MOST_INSTANCES:
            raise RegistrationRefused(f"DRA driver plugin {name} has {MOST_INSTANCES} instances already")

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        """It need not answer yet; it is dialled from now on until it is taken off."""
        self.validate(name, endpoint, versions)
        await self._make_room(name)
        instance = Instance(
            InstanceOptions(
                driver=name,
                endpoint=endpoint,
                service=choose_service(name, endpoint, versions),
                health=choose_health(versions) if self._options.listen else "",
                number=next(self._numbers),
                limits=self._options.limits,
                metrics=self._options.metrics,
                changed=lambda: self._turned(name),
            )
        )
        self._instances.setdefault(name, []).append(instance)
        self._options.hearing.begin(instance)
        self._turned(name)

    async def _make_room(self, name: str) -> None:
        """A driver that dies again and again leaves sockets behind at which nobody answers."""
        mine = self._instances.get(name, [])
        dead = [item for item in mine if not item.connected]
        for instance in dead[: max(0, len(mine) - MOST_INSTANCES + 1)]:
            await self.deregister(name, instance.options.endpoint)

    async def deregister(self, name: str, endpoint: str) -> None:
        for instance in [item for item in self._instances.get(name, []) if item.options.endpoint == endpoint]:
            self._instances[name].remove(instance)
            await self._options.hearing.end(instance)
            await instance.close()
        self._turned(name)

    # asked by who prepares

    def serving(self, driver: str) -> Instance:
        """The newest connected instance, else the newest; raises DriverMissing."""
        instances = self._instances.get(driver)
        if not instances:
            raise DriverMissing(f"DRA driver {driver} is not registered")
        return max(instances, key=lambda item: (item.connected, item.options.number))

    async def returned(self, driver: str) -> None:
        """Wait for a driver that may have been here before the manager began anew, but not for long."""
        while not self._view(driver).connected and (left := self._patient_until - time.monotonic()) > 0:
            self._change.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._change.wait()

    async def close(self) -> None:
        everyone = [instance for mine in self._instances.values() for instance in mine]
        for instance in everyone:
            await self._options.hearing.end(instance)
        await asyncio.gather(*(instance.close() for instance in everyone))

    def _turned(self, driver: str) -> None:
        self._change.set()
        self._options.changed(self._view(driver))

    def _view(self, driver: str) -> DraDriver:
        instances = self._instances.get(driver, [])
        if not instances:
            return DraDriver(driver, connected=False)
        options = self.serving(driver).options
        return DraDriver(
            name=driver,
            connected=any(instance.connected for instance in instances),
            version=options.service,
            health=options.health,
            endpoints=tuple(instance.options.endpoint for instance in instances),
        )
