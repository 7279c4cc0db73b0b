"""The driver's process: publish, serve, stay registered, end cleanly on SIGTERM and SIGINT."""

import asyncio
from collections.abc import Callable

from protocols.kube.client import ApiClient
from supervisor.dra_driver.claims import Claims
from supervisor.dra_driver.director import Cast, Director
from supervisor.dra_driver.health import HealthBoard, follow
from supervisor.dra_driver.kubeconfig import client_options
from supervisor.dra_driver.publisher import Publisher
from supervisor.dra_driver.script import DriverScript
from supervisor.dra_driver.server import DriverServer
from supervisor.dra_driver.types import DriverOptions
from supervisor.scripted.faults import Faults
from supervisor.scripted.playing import signalled, until_one_ends


async def run_driver(options: DriverOptions, script: DriverScript, say: Callable[[str], None]) -> int:
    """Until a signal or the script's last word; the exit code. The sockets are gone afterwards, the slices stay: the
    node deletes them when no driver returns."""
    with client_options(options.kubeconfig, options.driver) as access:
        client = ApiClient(access)
        await client.start()
        try:
            code = await _run(options, script, client, say)
        finally:
            await client.close()
    say("stopped")
    return code


async def _run(options: DriverOptions, script: DriverScript, client: ApiClient, say: Callable[[str], None]) -> int:
    board = HealthBoard(options.all_devices())
    publisher = Publisher(options, client, say)
    publisher.offer(board.devices)
    faults = Faults({str(method): fault for method, fault in script.calls.items()})
    server = DriverServer(options, Claims(options, client), board, faults, say)
    await server.start()
    ends = [asyncio.create_task(signalled())]
    tasks: list[asyncio.Task[None]] = [asyncio.create_task(publisher.run())]
    if script.steps:
        ends.append(asyncio.create_task(Director(Cast(script, server, board, publisher, faults, say)).run()))
    if options.health_file is not None:
        tasks.append(asyncio.create_task(follow(options.health_file, board, say)))
    return await until_one_ends(ends, tasks, server.stop)
