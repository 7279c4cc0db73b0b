"""The difference that a driver's health message makes, as its record shows it. Pure."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from actors.devices.calls.log import StreamMessage
from protocols.wire.rendering import MAX_ITEMS


class HealthChange(NamedTuple):
    """One device of a message that differs from the last report about it."""

    pool: str
    device: str
    health: str
    message: str
    before: str = ""
    """Health until now, Unknown if the last report has expired; empty = the first report about the device."""
    timeout: float = 0.0
    """Seconds after which the report expires, if the driver names them."""


class HealthDifference:
    """Collects the changes of one message: their number, and the first of them."""

    def __init__(self) -> None:
        self.parts = 0
        self._first: list[HealthChange] = []
        self._changed = 0
        self._devices = 0

    def add(self, devices: int, changes: list[HealthChange]) -> None:
        """Add a part of the message with this number of devices."""
        self.parts += 1
        self._devices += devices
        self._changed += len(changes)
        self._first += changes[: MAX_ITEMS - len(self._first)]

    def report(self, dropped: Sequence[tuple[str, str]] = ()) -> StreamMessage:
        """Return the record. `dropped` are the pools and names of devices that a complete message leaves out."""
        changed = self._changed + len(dropped)
        report = StreamMessage(f"{changed} device{'s' * (changed != 1)} changed" if changed else "nothing changed")
        report.content = {"devices": self._devices}
        if self._first:
            report.content["changed"] = [_shown(report, at, change) for at, change in enumerate(self._first)]
            _omit(report, "changed", self._changed)
        if dropped:
            names = (f"{pool}/{device}" for pool, device in dropped)
            report.content["removed"] = report.renderer.names(names, len(dropped), ("reply", "removed"))
        return report


def _shown(report: StreamMessage, at: int, change: HealthChange) -> dict[str, Any]:
    texts = {"pool_name": change.pool, "device_name": change.device, "health": change.health}
    texts |= {"message": change.message, "before": change.before}
    path = ("reply", "changed", at)
    shown: dict[str, Any] = {name: report.renderer.text(text, (*path, name)) for name, text in texts.items() if text}
    return shown | ({"timeout": change.timeout} if change.timeout else {})


def _omit(report: StreamMessage, name: str, count: int) -> None:
    if count > MAX_ITEMS:
        report.renderer.omitted[f"reply.{name}"] = count - MAX_ITEMS
