"""A node: its actors under a supervisor of their own, device plugins, a DRA driver and agents, on one machine."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from actors.cri.actor import Cri
from actors.devices.actor import Devices
from actors.frontdoor.actor import FrontDoor
from actors.health.actor import HealthActor
from actors.pleg.actor import PlegActor
from actors.podworker.actor import PodWorkerActor
from actors.runtime.actor import Runtime
from protocols.actor.shell import Factory
from protocols.node.alignment import Alignment
from protocols.process.settings import Settings
from supervisor.base.groups import NODE, child
from tests.simulation.model import Main
from tests.simulation.node.agents import Agent
from tests.simulation.node.endings import Endings
from tests.simulation.node.removals import Removals
from tests.simulation.node.simulators import Hardware, driver, plugin
from tests.simulation.node.witness import Witness
from tests.simulation.world.actors import SUPERVISOR, actor
from tests.simulation.world.process import Clock, Process, running
from tests.simulation.world.supervision import Plan, Supervision, drawn_limits
from tests.support.machines import Described, write_machine
from tests.support.settings import plane_settings

if TYPE_CHECKING:
    from tests.simulation.node.api import ModelApi
    from tests.simulation.world.world import World

SOONEST_S = 0.01
GPU, NIC = "sim.example.com/gpu", "sim.example.com/nic"
GPUS, NICS, CARDS = 4, 3, 3
VARIABLES = {"SIM_EXAMPLE_COM_GPU": GPU, "SIM_EXAMPLE_COM_NIC": NIC}
MACHINE = Described(sockets=2, cores_per_node=4)
ACTORS: dict[str, Factory] = {
    "runtime": Runtime,
    "cri": Cri,
    "pleg": PlegActor,
    "devices": Devices,
    "podworker": PodWorkerActor,
    "health": HealthActor,
    "frontdoor": FrontDoor,
}


class NodeShape(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    root: Path
    prefix: str = ""
    """Of the names that its processes have in the world."""
    api_url: str = ""
    """Where its API is; empty: a model answers at any URL."""
    agents: int = 2
    away_s: float = 0.5
    """The longest time for which plugins, driver and agents stay away."""
    api: "ModelApi | None" = None
    """The model of its API, which witnesses read."""


class Node:
    def __init__(self, world: "World", shape: NodeShape) -> None:
        self.world, self.shape, self.name, self.prefix = world, shape, shape.name, shape.prefix
        self.clock = Clock(world.random(f"{self.prefix}clock"))
        self.settings = _settings(shape)
        layout = self.settings.layout
        self.supervisor = self.prefix + SUPERVISOR
        self.resources = {f"{self.prefix}plugin-gpu": GPU, f"{self.prefix}plugin-nic": NIC}
        self.driver = f"{self.prefix}driver"
        self.hardware = {
            f"{self.prefix}plugin-gpu": Hardware([f"gpu-{n}" for n in range(GPUS)]),
            f"{self.prefix}plugin-nic": Hardware([f"nic-{n}" for n in range(NICS)]),
            self.driver: Hardware([f"card-{n}" for n in range(CARDS)]),
        }
        """By the process of the plugin or driver."""
        self.witness = Witness(world, layout, VARIABLES, self.prefix, shape.api)
        self.removals = Removals(world, self.witness)
        Endings(world, self.witness, self.prefix)
        names = [f"{self.prefix}agent-{n}" for n in range(shape.agents)]
        self.agents = [Agent(world, name, layout.pod_resources_socket, self.witness) for name in names]
        self._others = self._unsupervised()
        self.beside = tuple(self._others)
        """What no supervisor starts: plugins, driver and agents."""
        supervised = {
            self.prefix + name: actor(name, self._noted(made), self.settings) for name, made in ACTORS.items()
        }
        everything = {**supervised, **self._others}
        self.processes: dict[str, Main] = {name: self._on_one_machine(main) for name, main in everything.items()}
        self.targets = (*self.processes, self.supervisor)

    def _unsupervised(self) -> dict[str, Main]:
        world, layout, hardware = self.world, self.settings.layout, self.hardware
        plugins = {name: plugin(world, layout, resource, hardware[name]) for name, resource in self.resources.items()}
        agents = {agent.name: agent.main() for agent in self.agents}
        return {**plugins, self.driver: driver(world, layout, self.name, hardware[self.driver]), **agents}

    def _on_one_machine(self, main: Main) -> Main:
        """All processes of a node have the clocks of its machine."""

        async def begin(process: Process) -> object:
            process.clock = self.clock
            return await main(process)

        return begin

    def _noted(self, made: Factory) -> Factory:
        """Let each process note its actor, for checks that read its state."""

        def factory(context: Any) -> Any:
            part = running(self.world).notes["actor"] = made(context)
            return part

        return factory

    def actor(self, name: str) -> Any:
        """Return the actor of a process that runs."""
        return self.world.processes[self.prefix + name].notes["actor"]

    def begin(self) -> Supervision:
        """Start all of its processes."""
        self.begin_beside()
        specs = tuple(child(name, NODE) for name in ACTORS)
        plan = Plan(specs=specs, settings=self.settings, limits=drawn_limits(self.world, self.prefix))
        supervision = Supervision(self.world, plan, self.prefix)
        self.world.spawn(supervision.name)
        return supervision

    def make_directories(self) -> None:
        """Make what is there before anybody starts. A disk that is made later has it for sure."""
        layout = self.settings.layout
        for directory in (layout.run, layout.device_plugins, layout.plugins_registry, layout.plugins, layout.pod_logs,
                          layout.pod_resources_socket.parent, layout.devices, layout.runtime, layout.cdi):  # fmt: skip
            directory.mkdir(parents=True, exist_ok=True)

    def begin_beside(self) -> None:
        """Start what no supervisor starts."""
        self.make_directories()
        self.world.on_end.append(self._restart)
        for name in self._others:
            self.world.spawn(name)

    def _restart(self, process: Process, code: int, signal: int) -> None:
        """Start plugins, driver and agents again, as whoever deployed them does."""
        name, world = process.name, self.world
        if name in self._others:
            delay = world.random("restarts").uniform(SOONEST_S, self.shape.away_s)
            world.at(delay, None, lambda: name in world.processes or world.spawn(name))


def _settings(shape: NodeShape) -> Settings:
    machine = write_machine(shape.root / "machine", MACHINE)
    rules = Alignment(cpuManagerPolicy="static", reservedSystemCPUs="0", sysfsRoot=str(machine))
    made = plane_settings(shape.root, alignment=rules, healthz_port=0, node_name=shape.name)
    return msgspec.structs.replace(made, api_url=shape.api_url) if shape.api_url else made
