"""Assemble the driver: publish slices, serve, follow the health file, play the script, end on SIGTERM and SIGINT."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from actors.simulator.driver.claims import Claims
from actors.simulator.driver.health import HEALTHY, HealthBoard, ReportedHealth, follow_health_file
from actors.simulator.driver.options import DriverOptions
from actors.simulator.driver.script import DriverScript, DriverStep
from actors.simulator.driver.server import DriverServer
from actors.simulator.driver.slices import Publisher
from actors.simulator.engine.faults import Faults
from actors.simulator.engine.playback import Timeline, die_in_calls, play, until_one_ends
from protocols.dra.attacher import Attacher, AttacherOptions, Attachment
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.kubeconfig import client_options
from protocols.process.tasks import awaited, signalled


@dataclass(frozen=True)
class ScriptPlayer:
    """Perform each step of the script at its time, on the parts of a driver, beginning with the first registration."""

    script: DriverScript
    server: DriverServer
    board: HealthBoard
    publisher: Publisher
    faults: Faults
    say: Callable[[str], None]

    async def run(self) -> int:
        """Play the script; return only with the exit code of a step."""
        await self.server.registered.wait()
        return await play(Timeline(self.script.steps, self.script.repeat), self.perform, self.say)

    async def perform(self, step: DriverStep) -> None:
        self.faults.change(step.calls, self.say)
        for line in self.board.apply(step):
            self.say(line)
        self.publisher.offer(self.board.devices)
        if step.end:
            self.server.end_streams(step.end)
        if step.stop or step.crash:
            self.say("stops" if step.stop else "crashes")
            await (self.server.stop() if step.stop else self.server.cut())
        if step.register:
            await self.server.stop()
            await self.server.start()


async def run_driver(options: DriverOptions, say: Callable[[str], None]) -> int:
    """Run until a signal or a step with `exit`; return the exit code.

    The sockets are removed. The slices stay: the node deletes them when no driver returns.
    """
    with client_options(options.kubeconfig, options.driver) as access:
        client = ApiClient(access)
        await client.start()
        try:
            code = await _run(options, client, say)
        finally:
            await client.close()
    say("stopped")
    return code


async def _run(options: DriverOptions, client: ApiClient, say: Callable[[str], None]) -> int:
    script = options.script
    health = {spec.name: ReportedHealth(spec.health, spec.message) for spec in script.listed}
    board = HealthBoard(options.all_devices(), health, [spec.name for spec in script.listed if spec.away])
    publisher = Publisher(options, client, say)
    publisher.offer(board.devices)
    faults = Faults({str(method): fault for method, fault in script.calls.items()})
    server = DriverServer(options, Claims(options, client), board, faults, say)
    await server.start()
    ends = [awaited(signalled())]
    deaths = die_in_calls(faults, server.cut, server.start)
    tasks: list[asyncio.Task[None]] = [awaited(publisher.run()), awaited(deaths)]
    if script.steps:
        ends.append(awaited(ScriptPlayer(script, server, board, publisher, faults, say).run()))
    if script.attach:
        tasks.append(awaited(attacher(options, client, board, say).run()))
    if options.health_file is not None:
        tasks.append(awaited(follow_health_file(options.health_file, board, say)))
    return await until_one_ends(ends, tasks, server.stop)


def attacher(options: DriverOptions, client: ApiClient, board: HealthBoard, say: Callable[[str], None]) -> Attacher:
    """Return what attaches the devices: those that are not Healthy cannot be."""

    def attach(result: Mapping[str, Any]) -> Attachment:
        health = board.health.get(str(result["device"]), ReportedHealth())
        return Attachment(health.health == HEALTHY, health.message)

    def is_mine(result: Mapping[str, Any]) -> bool:
        return (result.get("driver"), result.get("pool")) == (options.driver, options.node)

    seconds = options.script.attach
    return Attacher(AttacherOptions(client=client, is_mine=is_mine, attach=attach, seconds=seconds, say=say))
