"""The driver's process: publish, serve, stay registered, end cleanly on SIGTERM and SIGINT."""

import asyncio
import signal
from collections.abc import Callable

from protocols.kube.client import ApiClient
from supervisor.dra_driver.claims import Claims
from supervisor.dra_driver.faults import Faults
from supervisor.dra_driver.health import HealthBoard, follow
from supervisor.dra_driver.kubeconfig import client_options
from supervisor.dra_driver.publisher import Publisher
from supervisor.dra_driver.server import DriverServer
from supervisor.dra_driver.types import DriverOptions


async def run_driver(options: DriverOptions, say: Callable[[str], None]) -> None:
    """Until a signal; the sockets are gone afterwards. The slices stay: the node deletes them when we do not return."""
    with client_options(options.kubeconfig, options.driver) as access:
        client = ApiClient(access)
        await client.start()
        try:
            await _run(options, client, say)
        finally:
            await client.close()
    say("stopped")


async def _run(options: DriverOptions, client: ApiClient, say: Callable[[str], None]) -> None:
    board = HealthBoard(options.all_devices())
    publisher = Publisher(options, client, say)
    publisher.offer(board.devices)
    server = DriverServer(options, Claims(options, client), board, Faults(), say)
    await server.start()
    tasks = [asyncio.create_task(publisher.run())]
    if options.health_file is not None:
        tasks.append(asyncio.create_task(follow(options.health_file, board, say)))
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


async def _signalled() -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await stopped.wait()
