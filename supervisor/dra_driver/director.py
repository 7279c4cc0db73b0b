"""Plays a script: each step at its time, until the script is over."""

from collections.abc import Callable
from dataclasses import dataclass

from supervisor.dra_driver.health import HealthBoard
from supervisor.dra_driver.publisher import Publisher
from supervisor.dra_driver.script import DriverScript, DriverStep
from supervisor.dra_driver.server import DriverServer
from supervisor.scripted.faults import Faults
from supervisor.scripted.playing import play
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
        return await play(self._timeline, self.perform, self._cast.say)

    async def perform(self, step: DriverStep) -> None:
        cast = self._cast
        cast.faults.change(step.calls, cast.say)
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
