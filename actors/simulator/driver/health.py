"""The health of the devices, set by the script or by a file with lines `DEVICE HEALTH [MESSAGE]`."""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from actors.simulator.driver.options import CardDevice
from actors.simulator.driver.script import DriverStep
from actors.simulator.engine.files import HealthFileInvalid, follow_file

HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"


class ReportedHealth(NamedTuple):
    """Health of one device as the script or the file has it."""

    health: str = HEALTHY
    message: str = ""


class HealthBoard:
    """The devices that are offered, and the health of each."""

    def __init__(
        self, devices: list[CardDevice], health: dict[str, ReportedHealth] | None = None, away: Iterable[str] = ()
    ) -> None:
        self._all = devices
        self._away = set(away)
        self.health = dict(health or {})
        self.silent = False
        """True while health streams stay open without sending reports."""
        self.change = asyncio.Event()
        """Set at the next change: take it before what a change would make outdated."""

    @property
    def devices(self) -> list[CardDevice]:
        return [device for device in self._all if device.name not in self._away]

    def health_of(self, device: CardDevice) -> ReportedHealth:
        return self.health.get(device.name, ReportedHealth())

    def set(self, health: dict[str, ReportedHealth]) -> list[str]:
        """Set the health of every device; those not named are healthy. Return a line for each change."""
        lines = [
            f"{device.name} is {new.health}{': ' + new.message if new.message else ''}"
            for device in self.devices
            if (new := health.get(device.name, ReportedHealth())) != self.health_of(device)
        ]
        self.health = health
        if lines:
            self.notify()
        return lines

    def apply(self, step: DriverStep) -> list[str]:
        """Apply a step and return a line for each change; unknown devices are skipped."""
        words = {**dict.fromkeys(step.unhealthy, UNHEALTHY), **dict.fromkeys(step.healthy, HEALTHY), **step.health}
        names = {device.name for device in self._all}
        lines = [f"{name} is not there" for name in sorted((words.keys() | {*step.add, *step.remove}) - names)]
        self._away = (self._away | set(step.remove)) - set(step.add)
        if step.silent is not None:
            self.silent = step.silent
            lines.append("is silent" if step.silent else "speaks again")
        lines += self.set({**self.health, **{name: ReportedHealth(word, step.message) for name, word in words.items()}})
        self.notify()
        return lines

    def notify(self) -> None:
        self.change.set()
        self.change = asyncio.Event()


def parse_health(text: str) -> dict[str, ReportedHealth]:
    """Read the health file. Raises HealthFileInvalid."""
    health: dict[str, ReportedHealth] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split(maxsplit=2)
        if len(words) == 1:
            raise HealthFileInvalid(
                f"line {number} of the health file is not `DEVICE HEALTH [MESSAGE]`: {line.strip()}"
            )
        if words:
            health[words[0]] = ReportedHealth(words[1], words[2].strip() if len(words) > 2 else "")
    return health


async def follow_health_file(path: Path, board: HealthBoard, say: Callable[[str], None]) -> None:
    """Apply the file now and on each change; without a file all devices are healthy. Never ends."""

    def apply(text: str) -> None:
        for line in board.set(parse_health(text)):
            say(line)

    await follow_file(path, apply, say)
