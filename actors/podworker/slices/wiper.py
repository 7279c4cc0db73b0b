"""Deletes the ResourceSlices of drivers that are gone from this node. The node's identity may delete no others."""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Mapping

import msgspec

from actors.podworker.slices.gone import GRACE_S, GoneDrivers
from protocols.errors import NodeplaneError
from protocols.kube.client import ApiClient
from protocols.kube.resources import RESOURCESLICES

FIRST_S, MOST_S = 1.0, 60.0
"""Pauses between tries to read what slices there are."""
log = logging.getLogger("podworker")


class WiperOptions(msgspec.Struct, frozen=True):
    node: str
    client: ApiClient
    connected: Callable[[], Mapping[str, bool] | None]
    """By driver; None = the device manager has not told yet."""
    grace: float = GRACE_S
    """Seconds from a driver's end to that of its slices."""


class SliceWiper:
    def __init__(self, options: WiperOptions) -> None:
        self._options = options
        self._gone = GoneDrivers(options.grace)
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """A driver may have come or gone."""
        self._woken.set()

    async def run(self) -> None:
        """Never ends. Sleeps while every driver is there."""
        await self._begin()
        while True:
            self._woken.clear()
            now = time.monotonic()
            if (connected := self._options.connected()) is not None:
                self._gone.observe(connected, now)
            for driver in self._gone.due(now):
                await self._wipe(driver)
            due = self._gone.next_due()
            try:
                async with asyncio.timeout(None if due is None else max(0.0, due - time.monotonic())):
                    await self._woken.wait()
            except TimeoutError:
                pass

    async def _begin(self) -> None:
        while (connected := self._options.connected()) is None:
            await self._woken.wait()
            self._woken.clear()
        pause = FIRST_S
        while True:
            try:
                found = await self._options.client.list(RESOURCESLICES, field_selector=self._selector())
                break
            except NodeplaneError as error:
                log.info("slices of this node not read yet: %s", error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, MOST_S)
        drivers = {str((item.get("spec") or {}).get("driver", "")) for item in found.get("items") or ()}
        self._gone.found(drivers, self._options.connected() or connected, time.monotonic())

    async def _wipe(self, driver: str) -> None:
        try:
            selector = self._selector(driver)
            await self._options.client.delete_collection(RESOURCESLICES, field_selector=selector)
        except NodeplaneError as error:
            if getattr(error, "code", 0) != 404:
                log.info("slices of %s not deleted yet: %s", driver, error)
                self._gone.failed(driver, time.monotonic(), random.uniform(1.0, 1.2))
                return
        log.info("driver %s is gone: its slices of this node are deleted", driver)
        self._gone.wiped(driver)

    def _selector(self, driver: str = "") -> str:
        mine = f"spec.nodeName={self._options.node}"
        return f"{mine},spec.driver={driver}" if driver else mine
