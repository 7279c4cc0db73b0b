"""Listens to the health streams of driver instances, one task each, as long as the instance is registered."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from actors.devices.dra.errors import DriverFailed, HealthUnimplemented
from actors.devices.dra.health import HealthBook, Said
from actors.devices.dra.instance import Instance
from actors.devices.dra.metrics import DraMetrics
from protocols.messages.devices import HEALTHY, UNHEALTHY, UNKNOWN
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
