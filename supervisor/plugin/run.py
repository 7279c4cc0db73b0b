"""The plugin's process: serve, stay registered, end cleanly on SIGTERM and SIGINT."""

import asyncio
import signal
from collections.abc import Callable

from supervisor.plugin.health import follow
from supervisor.plugin.registration import Registration
from supervisor.plugin.server import PluginServer
from supervisor.plugin.types import PluginOptions


async def run_plugin(options: PluginOptions, say: Callable[[str], None]) -> None:
    """Until a signal; the socket is gone afterwards."""
    server = PluginServer(options, say)
    tasks = [asyncio.create_task(Registration(options, server, say).keep())]
    if options.health_file is not None:
        tasks.append(asyncio.create_task(follow(options.health_file, server, say)))
    stop = asyncio.create_task(_signalled())
    try:
        done, _ = await asyncio.wait([stop, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.stop()
    say("stopped")


async def _signalled() -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await stopped.wait()
