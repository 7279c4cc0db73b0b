"""All registered driver instances: who answers for a driver, and whether anybody does."""

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from actors.devices.dra.errors import DriverMissing
from actors.devices.dra.hearing import Hearing
from actors.devices.dra.instance import Instance, InstanceOptions
from actors.devices.dra.metrics import DraMetrics
from actors.devices.dra.types import DraLimits
from actors.devices.dra.versions import choose_health, choose_service
from actors.devices.errors import RegistrationRefused
from protocols.messages.devices import DraDriver

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
