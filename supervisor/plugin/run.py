"""The plugin's process: serve, stay registered, play the script, end cleanly on SIGTERM and SIGINT."""

import asyncio
from collections.abc import Callable

from supervisor.plugin.devices import Devices, numbered
from supervisor.plugin.director import Cast, Director
from supervisor.plugin.health import follow
from supervisor.plugin.registration import Registration
from supervisor.plugin.script import PluginScript
from supervisor.plugin.scripted import ScriptedServer
from supervisor.plugin.types import PluginOptions
from supervisor.scripted.playing import signalled, until_one_ends


async def run_plugin(options: PluginOptions, script: PluginScript, say: Callable[[str], None]) -> int:
    """Until a signal or the script's last word; the exit code. The socket is gone afterwards."""
    server = ScriptedServer(options, _devices(options, script), say, script)
    registration = Registration(options, server, say)
    director = Director(Cast(script, server, registration, say))
    ends = [asyncio.create_task(signalled())]
    tasks: list[asyncio.Task[None]] = [asyncio.create_task(registration.keep())]
    if script.steps:
        ends.append(asyncio.create_task(director.run()))
    if options.health_file is not None:
        tasks.append(asyncio.create_task(follow(options.health_file, server, say)))
    code = await until_one_ends(ends, tasks, server.stop)
    say("stopped")
    return code


def _devices(options: PluginOptions, script: PluginScript) -> Devices:
    given = script.devices
    return Devices(options.name, numbered(options.name, given, script.numa) if isinstance(given, int) else given)
