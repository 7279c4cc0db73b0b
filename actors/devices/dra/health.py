"""Health that people force on devices of drivers (`nodeplane chaos device`), whatever these say. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from actors.devices.dra.types import DeviceName
from actors.devices.ledger.state import Override
from actors.devices.model.errors import InvalidHealth, UnknownDevice
from actors.devices.model.types import CHAOS
from protocols.messages.devices import HEALTHY, UNHEALTHY, UNKNOWN

WORDS = {"healthy": HEALTHY, "unhealthy": UNHEALTHY, "unknown": UNKNOWN}


class Forced:
    """Bounded by the devices there are: only such that are known are forced."""

    def __init__(self, orders: Iterable[Override] = ()) -> None:
        self._orders = {named(order.id): order.health for order in orders}

    def of(self, name: DeviceName) -> str | None:
        """None: what its driver says."""
        return self._orders.get(name)

    def put(self, name: DeviceName, health: str | None) -> str | None:
        """Returns what was forced before."""
        before = self._orders.pop(name, None)
        if health is not None:
            self._orders[name] = health
        return before

    def orders(self) -> tuple[Override, ...]:
        """As they outlive the process: of no resource."""
        return tuple(Override("", name.text, health) for name, health in self._orders.items())


def forced_health(word: str) -> str | None:
    """Of an order; None ends it. Raises InvalidHealth."""
    if word and word not in WORDS:
        raise InvalidHealth(f'health "{word}" does not exist; use {", ".join(WORDS)} or nothing')
    return WORDS.get(word)


def named(text: str) -> DeviceName:
    """From DRIVER/POOL/DEVICE; a pool's name may have slashes. Raises UnknownDevice."""
    driver, _, rest = text.partition("/")
    pool, _, device = rest.rpartition("/")
    if not (driver and pool and device):
        raise UnknownDevice(f"{text} names no device; a driver's device is DRIVER/POOL/DEVICE")
    return DeviceName(driver, pool, device)


LONGEST_MESSAGE = 1024
CUT = "..."
RECALLED = 0
"""Number of the voice of an earlier life; those of instances are greater."""


class Said(NamedTuple):
    """One device in one message of a driver."""

    pool: str
    device: str
    health: str
    message: str = ""
    timeout: float = 0.0
    """Seconds; 0 = the node's own; infinite = as long as the stream lives."""


class Report(NamedTuple):
    health: str
    message: str
    deadline: float
    timeout: float


@dataclass
class Voice:
    """One instance of a driver with a living stream."""

    number: int
    spoken: bool = False
    reports: dict[tuple[str, str], Report] = field(default_factory=dict)


class HealthBook:
    def __init__(self, timeout: float, forced: Forced | None = None) -> None:
        self._timeout = timeout
        self._forced = forced or Forced()
        self._voices: dict[str, dict[int, Voice]] = {}

    def opened(self, driver: str, number: int) -> None:
        """A stream begins; it counts from its first message on. Greater numbers are newer instances."""
        self._voices.setdefault(driver, {})[number] = Voice(number)

    def closed(self, driver: str, number: int) -> None:
        """It ended, for whatever reason: what it said is void."""
        voices = self._voices.get(driver, {})
        voices.pop(number, None)
        voices.pop(RECALLED, None)
        if not voices:
            self._voices.pop(driver, None)

    def recall(self, driver: str, reports: dict[tuple[str, str], Report], until: float) -> None:
        """What an earlier life of ours heard: true until it expires, or the driver speaks, or its stream ends; and no
        longer than `until`, for the driver may have ended while nobody listened."""
        kept = {
            key: report._replace(health=known(report.health), deadline=min(report.deadline, until))
            for key, report in reports.items()
        }
        self._voices.setdefault(driver, {})[RECALLED] = Voice(RECALLED, spoken=True, reports=kept)

    def heard(self, driver: str, number: int, devices: Iterable[Said], now: float) -> None:
        """A part of a message, or all of it. Devices it does not name keep what they have until it expires."""
        voice = self._voices[driver][number]
        voice.spoken = True
        self._voices[driver].pop(RECALLED, None)
        for said in devices:
            timeout = said.timeout if said.timeout > 0 else self._timeout
            voice.reports[said.pool, said.device] = Report(
                known(said.health), cut(said.message), now + timeout, timeout
            )

    def replaced(self, driver: str, number: int) -> None:
        """The next message is complete: what it does not name is Unknown at once."""
        self._voices[driver][number].reports.clear()

    def forget_expired(self, driver: str, number: int, now: float) -> None:
        """Devices a driver has long ceased to tell of take no room."""
        voice = self._voices[driver][number]
        voice.reports = {key: report for key, report in voice.reports.items() if report.deadline > now}

    def health(self, name: DeviceName, now: float) -> tuple[str, str]:
        if (forced := self._forced.of(name)) is not None:
            return forced, CHAOS
        report = self.report(name)
        if report is None or report.deadline <= now:
            return UNKNOWN, ""
        return report.health, report.message

    def deadline(self, names: Iterable[DeviceName], now: float) -> float | None:
        """When the next of these expires; None = none ever does."""
        reports = (report for name in names if (report := self.report(name)) is not None)
        ends = [report.deadline for report in reports if now < report.deadline < float("inf")]
        return min(ends, default=None)

    def report(self, name: DeviceName) -> Report | None:
        """What counts of what drivers say of a device; it may have expired."""
        voices = [voice for voice in self._voices.get(name.driver, {}).values() if voice.spoken]
        if not voices:
            return None
        return max(voices, key=lambda voice: voice.number).reports.get((name.pool, name.device))


def known(health: str) -> str:
    return health if health in (HEALTHY, UNHEALTHY) else UNKNOWN


def cut(message: str) -> str:
    """At most LONGEST_MESSAGE bytes of UTF-8, never half a character."""
    raw = message.encode(errors="replace")
    if len(raw) <= LONGEST_MESSAGE:
        return raw.decode()
    return raw[: LONGEST_MESSAGE - len(CUT)].decode(errors="ignore") + CUT
