"""Assemble the plugin: serve, stay registered, follow the health file, play the script, end on SIGTERM and SIGINT."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from actors.simulator.engine.files import follow_file
from actors.simulator.engine.playback import Timeline, die_in_calls, play, until_one_ends
from actors.simulator.plugin.devices import PluginDevices, numbered, parse_health
from actors.simulator.plugin.registration import Registration
from actors.simulator.plugin.script import PluginScript, PluginStep, Register
from actors.simulator.plugin.scripted_server import ScriptedServer
from actors.simulator.plugin.server import PluginOptions
from protocols.process.scripts import Seconds
from protocols.process.tasks import awaited, signalled


@dataclass(frozen=True)
class PluginParts:
    """The parts of a plugin on which a script acts."""

    script: PluginScript
    server: ScriptedServer
    registration: Registration
    say: Callable[[str], None]


class ScriptPlayer:
    """Perform each step of the script at its time, beginning with the first registration."""

    def __init__(self, parts: PluginParts) -> None:
        self._parts = parts
        self._timeline = Timeline(parts.script.steps, parts.script.repeat)

    async def run(self) -> int:
        """Play the script; return only with the exit code of a step."""
        await self._parts.registration.first.wait()
        return await play(self._timeline, self._perform, self._parts.say)

    async def _perform(self, step: PluginStep) -> None:
        self._parts.server.perform(step)
        await self._reconnect(step)

    async def die_in_calls(self) -> None:
        """Crash when a call's fault says so. Never ends."""
        await die_in_calls(
            self._parts.server.faults,
            lambda: self._reconnect(PluginStep(at=Seconds(0), crash=True)),
            lambda: self._reconnect(PluginStep(at=Seconds(0), register=True)),
        )

    async def _reconnect(self, step: PluginStep) -> None:
        """Apply the part of a step that concerns sockets and registration."""
        if step.stop or step.crash:
            self._parts.registration.hold()
            self._parts.say("stops" if step.stop else "crashes")
        if step.stop:
            await self._parts.server.stop()
        if step.crash:
            await self._parts.server.cut()
        if step.register:
            self._parts.registration.register_again(
                step.register if isinstance(step.register, Register) else Register()
            )


async def run_plugin(options: PluginOptions, script: PluginScript, say: Callable[[str], None]) -> int:
    """Run until a signal or a step with `exit`, remove the socket and return the exit code."""
    server = ScriptedServer(options, _devices(options, script), say, script)
    registration = Registration(options, server, say)
    player = ScriptPlayer(PluginParts(script, server, registration, say))
    ends = [awaited(signalled())]
    tasks: list[asyncio.Task[None]] = [awaited(registration.run()), awaited(player.die_in_calls())]
    if script.steps:
        ends.append(awaited(player.run()))
    if options.health_file is not None:
        followed = follow_file(options.health_file, lambda text: server.set_health(parse_health(text)), say)
        tasks.append(awaited(followed))
    code = await until_one_ends(ends, tasks, server.stop)
    say("stopped")
    return code


def _devices(options: PluginOptions, script: PluginScript) -> PluginDevices:
    given = script.devices
    return PluginDevices(options.name, numbered(options.name, given, script.numa) if isinstance(given, int) else given)
