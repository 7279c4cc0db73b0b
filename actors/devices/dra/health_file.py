"""Persist the health of devices in use, in kubelet's format, so that a restart does not make them Unknown.

Best effort: without a usable file all devices begin Unknown.
"""

import asyncio
import datetime
import logging
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec

from actors.devices.dra.health import HealthCache, HealthReport
from protocols.lifecycle.devices.types import DeviceName
from protocols.process.files import UNREADABLE, read_state, write_atomic
from protocols.process.tasks import awaited

CHANGE_PAUSE_S, REPEAT_PAUSE_S = 0.2, 10.0
"""Pauses between writes: after a change, and after drivers only repeated their reports."""
SECOND_NS = 1_000_000_000


class DeviceHealthEntry(msgspec.Struct, frozen=True, rename="pascal"):
    """The last report about a device; `last_updated` in RFC 3339."""

    pool_name: str
    device_name: str
    health: str
    last_updated: str
    health_check_timeout: int
    """Nanoseconds."""
    message: str = ""


class DriverHealth(msgspec.Struct, frozen=True, rename="pascal"):
    """Reports of a driver, by POOL/DEVICE."""

    devices: dict[str, DeviceHealthEntry] = {}


class HealthFileOptions(msgspec.Struct, frozen=True):
    """The file, and the devices whose health it persists; times in seconds."""

    path: Path
    health_cache: HealthCache
    names: Callable[[], set[DeviceName]]
    """Returns the devices of all claims in use."""
    clock: Callable[[], float]
    timeout: float
    """Timeout written for reports that are valid as long as their stream is open."""
    reconnect_wait: float
    """Time a driver has after the start to report again."""
    log: logging.Logger


class HealthFile:
    """Writes the file soon after reports changed, and reads it at start."""

    def __init__(self, options: HealthFileOptions) -> None:
        self._options = options
        self._reported = asyncio.Event()
        self._changed = asyncio.Event()
        self._logged_error = ""

    def load(self) -> None:
        """Restore reports that have not expired. Blocks: call it before the event loop is busy."""
        until = self._options.clock() + self._options.reconnect_wait
        try:
            drivers = msgspec.json.decode(read_state(self._options.path), type=dict[str, DriverHealth])
            for driver, state in drivers.items():
                reports = {(e.pool_name, e.device_name): self._report(e) for e in state.devices.values()}
                self._options.health_cache.restore(driver, reports, until)
        except FileNotFoundError:
            return
        except (OSError, ValueError, OverflowError, *UNREADABLE) as error:
            self._options.log.warning("cannot restore device health file=%s error=%s", self._options.path, error)

    def reported(self, changed: bool) -> None:
        """Record that drivers reported; `changed` if any health differs from before."""
        (self._changed if changed else self._reported).set()

    async def run(self) -> None:
        """Write the file after reports, forever."""
        while True:
            await self._wait()
            self._reported.clear()
            self._changed.clear()
            raw = self._encode()
            try:
                await uninterrupted(asyncio.to_thread(write_atomic, self._options.path, raw, 0o600))
                self._logged_error = ""
            except OSError as error:
                if self._logged_error != str(error):
                    self._options.log.warning(
                        "cannot persist device health file=%s error=%s", self._options.path, error.strerror
                    )
                self._logged_error = str(error)
            await asyncio.sleep(CHANGE_PAUSE_S)

    async def _wait(self) -> None:
        waits = [awaited(self._changed.wait()), awaited(self._repeated())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()

    async def _repeated(self) -> None:
        await self._reported.wait()
        await asyncio.sleep(REPEAT_PAUSE_S)

    def _encode(self) -> bytes:
        drivers: dict[str, dict[str, DeviceHealthEntry]] = {}
        now, wall = self._options.clock(), time.time()
        for name in sorted(self._options.names()):
            report = self._options.health_cache.report(name)
            if report is not None and report.deadline > now:
                drivers.setdefault(name.driver, {})[f"{name.pool}/{name.device}"] = self._entry(
                    name, report, wall - now
                )
        return msgspec.json.encode({driver: DriverHealth(devices) for driver, devices in drivers.items()})

    def _entry(self, name: DeviceName, report: HealthReport, offset: float) -> DeviceHealthEntry:
        endless = report.timeout == float("inf")
        timeout = self._options.timeout if endless else report.timeout
        seen = self._options.clock() if endless else report.deadline - report.timeout
        return DeviceHealthEntry(
            pool_name=name.pool,
            device_name=name.device,
            health=report.health,
            last_updated=datetime.datetime.fromtimestamp(seen + offset, datetime.UTC).isoformat(),
            health_check_timeout=int(timeout * SECOND_NS),
            message=report.message,
        )

    def _report(self, entry: DeviceHealthEntry) -> HealthReport:
        seen = datetime.datetime.fromisoformat(entry.last_updated).timestamp()
        timeout = entry.health_check_timeout / SECOND_NS
        age = max(0.0, time.time() - seen)  # the wall clock may have been set back
        return HealthReport(entry.health, entry.message, self._options.clock() + timeout - age, timeout)


async def uninterrupted(writing: Coroutine[Any, Any, None]) -> None:
    """Wait for a thread's work even if cancelled: a thread cannot be interrupted."""
    task = awaited(writing)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
