"""Mains of device plugins and the DRA driver, and their hardware: what is broken stays so over restarts."""

from typing import TYPE_CHECKING

from actors.simulator.driver import process as driver_process
from actors.simulator.driver.health import HealthBoard, ReportedHealth
from actors.simulator.driver.options import DriverOptions
from actors.simulator.driver.script import DriverScript
from actors.simulator.plugin import process as plugin_process
from actors.simulator.plugin.devices import HEALTHY, UNHEALTHY
from actors.simulator.plugin.script import DeviceSpec, PluginScript, Register
from actors.simulator.plugin.server import PluginOptions
from protocols.process.layout import Layout
from tests.simulation.world.patching import patch
from tests.simulation.world.process import Process, running

if TYPE_CHECKING:
    from tests.simulation.model import Main
    from tests.simulation.world.world import World

DRIVER = "card.example.com"


class Hardware:
    """Health of all devices of one plugin or driver, by id."""

    def __init__(self, ids: list[str]) -> None:
        self.health: dict[str, str] = dict.fromkeys(ids, HEALTHY)

    def turn(self, id: str) -> None:
        self.health[id] = UNHEALTHY if self.health[id] == HEALTHY else HEALTHY

    @property
    def healthy(self) -> set[str]:
        return {id for id, health in self.health.items() if health == HEALTHY}


def note_parts(world: "World") -> None:
    """Let each process note its server, registration and board, for faults that act on them."""
    for module, name, key in (
        (plugin_process, "ScriptedServer", "server"),
        (plugin_process, "Registration", "registration"),
        (driver_process, "HealthBoard", "board"),
        (driver_process, "DriverServer", "server"),
    ):
        made = getattr(module, name)

        def make(*given: object, made: type = made, key: str = key) -> object:
            notes = running(world).notes
            part = notes[key] = made(*given)
            if isinstance(part, HealthBoard):
                part.set(_healths(notes["hardware"]))
            return part

        patch(module, name, make)


def plugin(world: "World", layout: Layout, resource: str, hardware: Hardware) -> "Main":
    async def main(process: Process) -> int:
        options = PluginOptions(resource, layout.device_plugins, instance=str(process.pid))
        specs = [
            DeviceSpec(id=id, health=health, numa=at % 2) for at, (id, health) in enumerate(hardware.health.items())
        ]
        pre_start = resource.endswith("nic")
        script = PluginScript(resource=resource, devices=tuple(specs), pre_start=pre_start)
        return await plugin_process.run_plugin(options, script, lambda line: world.happened(process.name, line))

    return main


def driver(world: "World", layout: Layout, node: str, hardware: Hardware) -> "Main":
    async def main(process: Process) -> int:
        options = DriverOptions(
            script=DriverScript(driver=DRIVER, devices=len(hardware.health), numa=2), node=node, kubelet=layout.kubelet,
            cdi=layout.cdi, kubeconfig=layout.kubeconfig, instance=str(process.pid),
        )  # fmt: skip
        process.notes["hardware"] = hardware
        return await driver_process.run_driver(options, lambda line: world.happened(process.name, line))

    return main


def show(process: Process, hardware: Hardware) -> None:
    """Let a plugin or driver report its hardware. Runs in a turn of its process."""
    board = process.notes.get("board")
    server = process.notes.get("server")
    if isinstance(board, HealthBoard):
        board.set(_healths(hardware))
    elif server is not None:
        server.set_health(dict(hardware.health))


def register_again(process: Process) -> None:
    """Let a plugin register once more, on a new socket. Runs in a turn of its process."""
    if (registration := process.notes.get("registration")) is not None:
        registration.register_again(Register())


def _healths(hardware: Hardware) -> dict[str, ReportedHealth]:
    return {id: ReportedHealth(health) for id, health in hardware.health.items()}
