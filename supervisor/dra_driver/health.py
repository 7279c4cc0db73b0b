"""Which of our devices are well, by file: lines `DEVICE HEALTH [MESSAGE]`."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from supervisor.dra_driver.script import DriverStep
from supervisor.dra_driver.types import Device
from supervisor.plugin.errors import HealthFileInvalid
from supervisor.plugin.health import follow_text

HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"


class Health(NamedTuple):
    health: str = HEALTHY
    message: str = ""


class HealthBoard:
    """The devices there are, and how each is. `changed()` ends whenever that changes."""

    def __init__(self, devices: list[Device]) -> None:
        self._all = devices
        self._away: set[str] = set()
        self.health: dict[str, Health] = {}
        self.silent = False
        """No more reports are sent, and the streams stay open."""
        self._event = asyncio.Event()

    @property
    def devices(self) -> list[Device]:
        """Those that are offered now."""
        return [device for device in self._all if device.name not in self._away]

    def of(self, device: Device) -> Health:
        return self.health.get(device.name, Health())

    def set(self, health: dict[str, Health]) -> list[str]:
        """Devices not named are well. Returns a line for each that changed."""
        told = [
            f"{device.name} is {new.health}{': ' + new.message if new.message else ''}"
            for device in self.devices
            if (new := health.get(device.name, Health())) != self.of(device)
        ]
        self.health = health
        if told:
            self.notify()
        return told

    def apply(self, step: DriverStep) -> list[str]:
        """Lines about what changed; a device that is not there is passed over."""
        words = {**dict.fromkeys(step.unhealthy, UNHEALTHY), **dict.fromkeys(step.healthy, HEALTHY), **step.health}
        names = {device.name for device in self._all}
        lines = [f"{name} is not there" for name in sorted((words.keys() | {*step.add, *step.remove}) - names)]
        self._away = (self._away | set(step.remove)) - set(step.add)
        if step.silent is not None:
            self.silent = step.silent
            lines.append("is silent" if step.silent else "speaks again")
        lines += self.set({**self.health, **{name: Health(word, step.message) for name, word in words.items()}})
        self.notify()
        return lines

    def notify(self) -> None:
        self._event.set()
        self._event = asyncio.Event()

    async def changed(self, timeout: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._event.wait()


def parse(text: str) -> dict[str, Health]:
    """Raises HealthFileInvalid."""
    found: dict[str, Health] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split(maxsplit=2)
        if len(words) == 1:
            raise HealthFileInvalid(
                f"line {number} of the health file is not `DEVICE HEALTH [MESSAGE]`: {line.strip()}"
            )
        if words:
            found[words[0]] = Health(words[1], words[2].strip() if len(words) > 2 else "")
    return found


async def follow(path: Path, board: HealthBoard, say: Callable[[str], None]) -> None:
    """Apply the file now and on each change; a missing file means all is well. Never ends."""

    def apply(text: str) -> None:
        for line in board.set(parse(text)):
            say(line)

    await follow_text(path, apply, say)
