"""Plays a script: each step at its time, until the script is over."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from supervisor.dra_driver.health import HealthBoard
from supervisor.dra_driver.publisher import Publisher
from supervisor.dra_driver.script import DriverScript, DriverStep
from supervisor.dra_driver.server import DriverServer
from supervisor.scripted.faults import Faults
from supervisor.scripted.timeline import Timeline


@dataclass(frozen=True)
class Cast:
    """Whom the director tells what to do."""

    script: DriverScript
    server: DriverServer
    board: HealthBoard
    publisher: Publisher
    faults: Faults
    say: Callable[[str], None]


class Director:
    def __init__(self, cast: Cast) -> None:
        self._cast = cast
        self._timeline = Timeline(cast.script.steps, cast.script.repeat)

    async def run(self) -> int:
        """The exit code a step asks for; else it never ends. Time begins with the first registration."""
        await self._cast.server.registered.wait()
        begun = time.monotonic()
        while True:
            for step in self._timeline.due(time.monotonic() - begun):
                await self.perform(step)
                if step.exit is not None:
                    return step.exit
            wait = self._timeline.wait(time.monotonic() - begun)
            if wait is None:
                self._cast.say("the script is over")
                await asyncio.Event().wait()
            await asyncio.sleep(wait or 0.0)

    async def perform(self, step: DriverStep) -> None:
        cast = self._cast
        for method, fault in step.calls.items():
            cast.faults.set(method, fault)
            cast.say(f"{method} has another fault" if fault != type(fault)() else f"{method} is well again")
        for line in cast.board.apply(step):
            cast.say(line)
        cast.publisher.offer(cast.board.devices)
        if step.end:
            cast.server.end_streams()
        if step.stop or step.crash:
            cast.say("stops" if step.stop else "crashes")
            await (cast.server.stop() if step.stop else cast.server.cut())
        if step.register:
            await cast.server.stop()
            await cast.server.start()
