"""The health of devices in use on disk, in kubelet's format: a new life of ours need not call Unknown what a driver
said a moment ago. A convenience, not a promise: without the file, or with one that is no use, all begins Unknown."""

import asyncio
import datetime
import logging
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from actors.devices.dra.health import HealthBook, Report
from actors.devices.dra.types import DeviceName
from protocols.files import write_atomic

SOONEST_S, LATEST_S = 0.2, 10.0
"""Pauses between writes: when something changed, and when drivers only said the same again."""
SECOND_NS = 1_000_000_000


class Entry(msgspec.Struct, frozen=True, rename="pascal"):
    pool_name: str
    device_name: str
    health: str
    last_updated: str
    health_check_timeout: int
    """Nanoseconds."""
    message: str = ""


class Driver(msgspec.Struct, frozen=True, rename="pascal"):
    devices: dict[str, Entry] = {}


@dataclass(frozen=True)
class KeptHealthOptions:
    path: Path
    book: HealthBook
    names: Callable[[], set[DeviceName]]
    """Devices of all claims in use."""
    clock: Callable[[], float]
    timeout: float
    """For what is true as long as its stream lives."""
    come_back: float
    """How long a driver has after our start to tell again."""
    log: logging.Logger


class KeptHealth:
    def __init__(self, options: KeptHealthOptions) -> None:
        self._options = options
        self._said = asyncio.Event()
        self._changed = asyncio.Event()
        self._trouble = ""

    def load(self) -> None:
        """What has not expired meanwhile counts until a driver speaks. Blocks: only before the loop is busy."""
        until = self._options.clock() + self._options.come_back
        try:
            drivers = msgspec.json.decode(self._options.path.read_bytes(), type=dict[str, Driver])
            for driver, state in drivers.items():
                reports = {(e.pool_name, e.device_name): self._report(e) for e in state.devices.values()}
                self._options.book.recall(driver, reports, until)
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:  # msgspec's errors are ValueErrors
            self._options.log.warning("health state %s not used: %s", self._options.path, error)

    def said(self, changed: bool) -> None:
        """Drivers spoke; `changed`: something is other than before."""
        (self._changed if changed else self._said).set()

    async def run(self) -> None:
        """Never ends. Sleeps while no driver speaks."""
        while True:
            await self._wait()
            self._said.clear()
            self._changed.clear()
            raw = self._encode()
            try:
                await whole(asyncio.to_thread(write_atomic, self._options.path, raw, 0o600))
                self._trouble = ""
            except OSError as error:
                if self._trouble != str(error):
                    self._options.log.warning("cannot write %s: %s", self._options.path, error.strerror)
                self._trouble = str(error)
            await asyncio.sleep(SOONEST_S)

    async def _wait(self) -> None:
        waits = [asyncio.create_task(self._changed.wait()), asyncio.create_task(self._spoken())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()

    async def _spoken(self) -> None:
        await self._said.wait()
        await asyncio.sleep(LATEST_S)

    def _encode(self) -> bytes:
        drivers: dict[str, dict[str, Entry]] = {}
        now, wall = self._options.clock(), time.time()
        for name in sorted(self._options.names()):
            report = self._options.book.report(name)
            if report is not None and report.deadline > now:
                drivers.setdefault(name.driver, {})[f"{name.pool}/{name.device}"] = self._entry(
                    name, report, wall - now
                )
        return msgspec.json.encode({driver: Driver(devices) for driver, devices in drivers.items()})

    def _entry(self, name: DeviceName, report: Report, offset: float) -> Entry:
        endless = report.timeout == float("inf")
        timeout = self._options.timeout if endless else report.timeout
        seen = self._options.clock() if endless else report.deadline - report.timeout
        return Entry(
            pool_name=name.pool,
            device_name=name.device,
            health=report.health,
            last_updated=datetime.datetime.fromtimestamp(seen + offset, datetime.UTC).isoformat(),
            health_check_timeout=int(timeout * SECOND_NS),
            message=report.message,
        )

    def _report(self, entry: Entry) -> Report:
        seen = datetime.datetime.fromisoformat(entry.last_updated).timestamp()
        timeout = entry.health_check_timeout / SECOND_NS
        age = max(0.0, time.time() - seen)  # a clock that was set back makes nothing older or younger than it is
        return Report(entry.health, entry.message, self._options.clock() + timeout - age, timeout)


async def whole(writing: Coroutine[Any, Any, None]) -> None:
    """A thread cannot be cancelled: whoever is, leaves when it has ended."""
    task = asyncio.create_task(writing)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
