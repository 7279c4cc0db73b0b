"""Plays a script: each step at its time, until the script is over."""

from collections.abc import Callable
from dataclasses import dataclass

from supervisor.plugin.registration import Registration
from supervisor.plugin.script import PluginScript, PluginStep, Register
from supervisor.plugin.scripted import ScriptedServer
from supervisor.scripted.playing import play
from supervisor.scripted.timeline import Timeline


@dataclass(frozen=True)
class Cast:
    """Whom the director tells what to do."""

    script: PluginScript
    server: ScriptedServer
    registration: Registration
    say: Callable[[str], None]


class Director:
    def __init__(self, cast: Cast) -> None:
        self._cast = cast
        self._timeline = Timeline(cast.script.steps, cast.script.repeat)

    async def run(self) -> int:
        """The exit code a step asks for; else it never ends."""
        await self._cast.registration.first.wait()
        return await play(self._timeline, self._perform, self._cast.say)

    async def _perform(self, step: PluginStep) -> None:
        self._cast.server.perform(step)
        if step.stop or step.crash:
            self._cast.registration.hold()
            self._cast.say("stops" if step.stop else "crashes")
        if step.stop:
            await self._cast.server.stop()
        if step.crash:
            await self._cast.server.cut()
        if step.register:
            self._cast.registration.again(step.register if isinstance(step.register, Register) else Register())
