"""Health of DRA devices, from drivers' reports and overrides. Pure: callers pass the current time in seconds.

Invariant: Healthy or Unhealthy is only what the newest instance of the driver with an open health stream reported
within the device's timeout, unless it is overridden. Everything else is Unknown.
"""

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import msgspec

from actors.devices.calls.health import HealthChange
from actors.devices.dra.errors import DriverFailed
from actors.devices.ledger.state import Override
from protocols.lifecycle.devices.types import CHAOS, DeviceName
from protocols.lifecycle.errors import InvalidHealth, UnknownDevice
from protocols.messages.devices import HEALTHY, UNHEALTHY, UNKNOWN
from protocols.messages.health import truncate_message

MAX_REPORTS = 200_000
"""Devices that one stream may report: a report may be valid for a year."""
SWEEP_S = 10.0
"""Time between two searches for expired reports: one for each message would cost as much as all reports."""
RESTORED = 0
"""Number of the pseudo stream with reports from before a restart; those of instances are greater."""
STATES = {"healthy": HEALTHY, "unhealthy": UNHEALTHY, "unknown": UNKNOWN}


class HealthOverrides:
    """Health forced by `nodeplane chaos device`. Bounded: only known devices can be overridden."""

    def __init__(self, orders: Iterable[Override] = ()) -> None:
        self._by_device = {parse_device_name(order.id): order.health for order in orders}

    def get(self, name: DeviceName) -> str | None:
        """Return the forced health, or None if the driver's report applies."""
        return self._by_device.get(name)

    def set(self, name: DeviceName, health: str | None) -> str | None:
        """Set or, with None, remove an override. Return the earlier one."""
        before = self._by_device.pop(name, None)
        if health is not None:
            self._by_device[name] = health
        return before

    def stored(self) -> tuple[Override, ...]:
        """Return the overrides as they are stored in the checkpoint, with an empty resource."""
        return tuple(Override("", name.text, health) for name, health in self._by_device.items())


def parse_health(word: str) -> str | None:
    """Return the health that an order names, or None to end the override. Raises InvalidHealth."""
    if word and word not in STATES:
        raise InvalidHealth(f'health "{word}" does not exist; use {", ".join(STATES)} or nothing')
    return STATES.get(word)


def parse_device_name(text: str) -> DeviceName:
    """Parse DRIVER/POOL/DEVICE; a pool's name may contain slashes. Raises UnknownDevice."""
    driver, _, rest = text.partition("/")
    pool, _, device = rest.rpartition("/")
    if not (driver and pool and device):
        raise UnknownDevice(f"{text} names no device; a driver's device is DRIVER/POOL/DEVICE")
    return DeviceName(driver, pool, device)


class DeviceReport(NamedTuple):
    """Report about one device in a driver's message."""

    pool: str
    device: str
    health: str
    message: str = ""
    timeout: float = 0.0
    """Seconds; 0 = the default; infinite = as long as the stream is open."""


class HealthReport(NamedTuple):
    """The last report about a device; `deadline` and `timeout` in seconds, infinity if it does not expire."""

    health: str
    message: str
    deadline: float
    timeout: float


Reports: TypeAlias = dict[tuple[str, str], HealthReport]
"""By pool and device."""


class HealthStream(msgspec.Struct):
    """Open health stream of one driver instance."""

    number: int
    reported: bool = False
    swept: float = float("-inf")
    reports: Reports = msgspec.field(default_factory=dict)


class HealthCache:
    """Reports by driver and stream. The newest stream that has sent a message counts."""

    def __init__(self, timeout: float, overrides: HealthOverrides | None = None) -> None:
        self._timeout = timeout
        self._overrides = overrides or HealthOverrides()
        self._streams: dict[str, dict[int, HealthStream]] = {}

    def open_stream(self, driver: str, number: int) -> None:
        """Add a stream. It counts from its first message on; greater numbers are newer instances."""
        self._streams.setdefault(driver, {})[number] = HealthStream(number)

    def close_stream(self, driver: str, number: int) -> None:
        """Remove a stream with all its reports."""
        streams = self._streams.get(driver, {})
        streams.pop(number, None)
        streams.pop(RESTORED, None)
        if not streams:
            self._streams.pop(driver, None)

    def restore(self, driver: str, reports: dict[tuple[str, str], HealthReport], until: float) -> None:
        """Restore reports from before a restart.

        They are valid until they expire, the driver reports, or its stream ends; but not after `until`, since the
        driver may have died while this process was down.
        """
        kept = {
            key: report._replace(health=known_state(report.health), deadline=min(report.deadline, until))
            for key, report in reports.items()
        }
        self._streams.setdefault(driver, {})[RESTORED] = HealthStream(RESTORED, reported=True, reports=kept)

    def apply(
        self, driver: str, number: int, devices: Iterable[DeviceReport], now: float, complete: Reports | None = None
    ) -> list[HealthChange]:
        """Apply a message or a part of it, and return what differs from the stream's reports until now.

        Devices it does not name keep their report until it expires. Reports of a `complete` message are collected, and
        count from `replace` on. Raises DriverFailed for more than MAX_REPORTS devices.
        """
        earlier = self._streams[driver][number].reports
        reports = self._counting(driver, number).reports if complete is None else complete
        changes: list[HealthChange] = []
        for device in devices:
            timeout = device.timeout if device.timeout > 0 else self._timeout
            key = (device.pool, device.device)
            report = HealthReport(known_state(device.health), truncate_message(device.message), now + timeout, timeout)
            last = earlier.get(key)
            if last is not None and last.deadline <= now:
                last = HealthReport(UNKNOWN, "", last.deadline, last.timeout)
            if last is None or last[:2] != report[:2]:
                given = device.timeout if 0 < device.timeout < float("inf") else 0.0
                was = last.health if last else ""
                changes.append(HealthChange(*key, report.health, report.message, was, given))
            reports[key] = report
        if len(reports) > MAX_REPORTS:
            raise DriverFailed(f"it reports the health of more than {MAX_REPORTS} devices")
        return changes

    def is_reported(self, driver: str, number: int) -> bool:
        """Return True if the stream has sent a message, so that it may count."""
        return self._streams[driver][number].reported

    def replace(self, driver: str, number: int, complete: Reports) -> list[tuple[str, str]]:
        """Replace the reports of a stream by those of a complete message; return the devices that it leaves out."""
        stream = self._counting(driver, number)
        before, stream.reports = stream.reports, complete
        return [key for key in before if key not in complete]

    def _counting(self, driver: str, number: int) -> HealthStream:
        """Return a stream that counts from now on."""
        self._streams[driver].pop(RESTORED, None)
        stream = self._streams[driver][number]
        stream.reported = True
        return stream

    def drop_expired(self, driver: str, number: int, now: float) -> None:
        """Drop reports that have expired, to bound memory; at most once in SWEEP_S."""
        stream = self._streams[driver][number]
        if now - stream.swept < SWEEP_S:
            return
        stream.swept = now
        stream.reports = {key: report for key, report in stream.reports.items() if report.deadline > now}

    def health(self, name: DeviceName, now: float) -> tuple[str, str]:
        if (forced := self._overrides.get(name)) is not None:
            return forced, CHAOS
        report = self.report(name)
        if report is None or report.deadline <= now:
            return UNKNOWN, ""
        return report.health, report.message

    def deadline(self, names: Iterable[DeviceName], now: float) -> float | None:
        """Return when the next of these reports expires, or None."""
        reports = (report for name in names if (report := self.report(name)) is not None)
        ends = [report.deadline for report in reports if now < report.deadline < float("inf")]
        return min(ends, default=None)

    def report(self, name: DeviceName) -> HealthReport | None:
        """Return the effective health report for a device, which may have expired."""
        streams = [stream for stream in self._streams.get(name.driver, {}).values() if stream.reported]
        if not streams:
            return None
        return max(streams, key=lambda stream: stream.number).reports.get((name.pool, name.device))


def known_state(health: str) -> str:
    """Return the health, Unknown for any state that this release does not know."""
    return health if health in (HEALTHY, UNHEALTHY) else UNKNOWN
