"""Delete the ResourceSlices of DRA drivers that left this node. The node's identity may delete no others."""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable, Mapping
from itertools import count

import msgspec

from protocols.errors import NodeplaneError
from protocols.kinds.table import RESOURCESLICES
from protocols.kubeclient.client import ApiClient
from protocols.process.rates import backoff_delay
from protocols.process.tasks import wait_set

GRACE_S = 30.0
RETRY_FIRST_S, RETRY_MOST_S = 1.0, 300.0
FIRST_S, MOST_S = 1.0, 60.0
"""Pauses between attempts to list the slices of this node."""
log = logging.getLogger("podworker")


class GoneDrivers:
    """Drivers by the time at which their slices are deleted. Pure: callers pass the time in seconds."""

    def __init__(self, grace: float = GRACE_S) -> None:
        self._grace = grace
        self._due: dict[str, float] = {}
        self._seen: set[str] = set()
        self._failures: dict[str, int] = {}

    def found(self, drivers: Iterable[str], connected: Mapping[str, bool], now: float) -> None:
        """Schedule drivers that had slices when this process started: their end may have been missed."""
        for driver in drivers:
            self._seen.add(driver)
            if not connected.get(driver):
                self._due[driver] = now

    def observe(self, connected: Mapping[str, bool], now: float) -> None:
        """Update the connection state of all registered drivers.

        A driver that reconnects within the grace period keeps its slices; further changes do not prolong the period.
        """
        self._seen |= connected.keys()
        for driver in self._seen:
            if connected.get(driver):
                self._due.pop(driver, None)
                self._failures.pop(driver, None)
            else:
                self._due.setdefault(driver, now + self._grace)

    def due(self, now: float) -> list[str]:
        return sorted(driver for driver, at in self._due.items() if at <= now)

    def next_due(self) -> float | None:
        return min((at for at in self._due.values() if at != float("inf")), default=None)

    def deleted(self, driver: str) -> None:
        """Mark the slices of a driver as deleted; if it registers again, it starts anew."""
        if driver in self._due:
            self._due[driver] = float("inf")
        self._failures.pop(driver, None)

    def failed(self, driver: str, now: float, jitter: float = 1.0) -> None:
        failures = self._failures[driver] = self._failures.get(driver, 0) + 1
        if driver in self._due:
            self._due[driver] = now + backoff_delay(failures, RETRY_FIRST_S * jitter, RETRY_MOST_S)


class SliceCleanerOptions(msgspec.Struct, frozen=True):
    """The node, and the drivers that are connected to it."""

    node: str
    client: ApiClient
    connected: Callable[[], Mapping[str, bool] | None]
    """Connection state by driver; None until the device manager has reported."""
    grace: float = GRACE_S
    """Seconds from a driver's end to that of its slices."""


class SliceCleaner:
    """Deletes what is due, again after failures."""

    def __init__(self, options: SliceCleanerOptions) -> None:
        self._options = options
        self._gone = GoneDrivers(options.grace)
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Check the drivers again: one may have connected or disconnected."""
        self._woken.set()

    async def run(self) -> None:
        """Run until cancelled. Sleeps while every driver is connected."""
        await self._begin()
        while True:
            self._woken.clear()
            now = time.monotonic()
            if (connected := self._options.connected()) is not None:
                self._gone.observe(connected, now)
            for driver in self._gone.due(now):
                if not (self._options.connected() or {}).get(driver):  # it may have come back during another deletion
                    await self._delete(driver)
            due = self._gone.next_due()
            await wait_set(self._woken, None if due is None else due - time.monotonic())

    async def _begin(self) -> None:
        while (connected := self._options.connected()) is None:
            await self._woken.wait()
            self._woken.clear()
        for failures in count(1):
            try:
                slice_list = await self._options.client.list(RESOURCESLICES, field_selector=self._selector())
                break
            except NodeplaneError as error:
                log.info("resource slices not listed yet, retrying error=%s", error)
                await asyncio.sleep(backoff_delay(failures, FIRST_S, MOST_S))
        drivers = {str((item.get("spec") or {}).get("driver") or "") for item in slice_list.get("items") or ()}
        drivers.discard("")  # a selector without a driver would delete the slices of all
        self._gone.found(drivers, self._options.connected() or connected, time.monotonic())

    async def _delete(self, driver: str) -> None:
        try:
            selector = self._selector(driver)
            await self._options.client.delete_collection(RESOURCESLICES, field_selector=selector)
        except NodeplaneError as error:
            if getattr(error, "code", 0) != 404:
                log.info("resource slices not deleted yet driver=%s error=%s", driver, error)
                self._gone.failed(driver, time.monotonic(), random.uniform(1.0, 1.2))
                return
        log.info("resource slices of a driver that left deleted driver=%s", driver)
        self._gone.deleted(driver)

    def _selector(self, driver: str = "") -> str:
        mine = f"spec.nodeName={self._options.node}"
        return f"{mine},spec.driver={driver}" if driver else mine
