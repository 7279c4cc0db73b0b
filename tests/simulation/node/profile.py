"""The node profile: the real actors of one node, device plugins, a DRA driver, agents, and a model of the API."""

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
from tests.simulation.calls.install import install as install_calls
from tests.simulation.model import Broken, Main
from tests.simulation.node.agents import Agent
from tests.simulation.node.api import ModelApi
from tests.simulation.node.faults import NodeFaults
from tests.simulation.node.limits import draw_limits
from tests.simulation.node.load import Load
from tests.simulation.node.notifications import Notifications
from tests.simulation.node.oracle import Oracle
from tests.simulation.node.replaced import replace_machine
from tests.simulation.node.simulators import Hardware, driver, note_parts, plugin
from tests.simulation.node.witness import Witness
from tests.simulation.world.actors import SUPERVISOR, actor
from tests.simulation.world.process import Clock, Process, running
from tests.simulation.world.supervision import Plan, Supervision
from tests.support.machines import Described, write_machine
from tests.support.settings import plane_settings

if TYPE_CHECKING:
    from tests.simulation.world.world import World

RESTART_S = 0.01, 0.5
GPU, NIC = "sim.example.com/gpu", "sim.example.com/nic"
VARIABLES = {"SIM_EXAMPLE_COM_GPU": GPU, "SIM_EXAMPLE_COM_NIC": NIC}
MACHINE = Described(sockets=2, cores_per_node=4)
AGENTS = 2
ACTORS: dict[str, Factory] = {
    "runtime": Runtime,
    "cri": Cri,
    "pleg": PlegActor,
    "devices": Devices,
    "podworker": PodWorkerActor,
    "health": HealthActor,
    "frontdoor": FrontDoor,
}


class NodeProfile:
    kinds = ("kill", "pause", "cut", "all", *NodeFaults.kinds)

    def __init__(self, world: "World") -> None:
        self.world = world
        hide_chance(world)
        self._clock = Clock(world.random("clock"))
        self._settings = _settings(world)
        draw_limits(world)
        self.api = ModelApi(world)
        self.sockets = install_calls(world)
        replace_machine(world, self.api, self.sockets)
        note_parts(world)
        self._notifications = Notifications(world)
        self.resources = {"plugin-gpu": GPU, "plugin-nic": NIC}
        self.hardware = {
            "plugin-gpu": Hardware([f"gpu-{n}" for n in range(4)]),
            "plugin-nic": Hardware([f"nic-{n}" for n in range(3)]),
            "driver": Hardware([f"card-{n}" for n in range(3)]),
        }
        layout = self._settings.layout
        self.witness = Witness(world, layout, VARIABLES)
        self.agents = [Agent(world, f"agent-{n}", layout.pod_resources_socket, self.witness) for n in range(AGENTS)]
        self.supervised = {name: actor(name, self._noted(made), self._settings) for name, made in ACTORS.items()}
        self._others = self._unsupervised()
        everything = {**self.supervised, **self._others}
        self.processes: dict[str, Main] = {name: self._on_one_machine(main) for name, main in everything.items()}
        self.targets = (*self.processes, SUPERVISOR)
        self.load = Load(world, self.api, {GPU: 4, NIC: 3}, list(self.hardware["driver"].health))
        self._faults = NodeFaults(self)

    def _unsupervised(self) -> dict[str, Main]:
        world, layout, hardware = self.world, self._settings.layout, self.hardware
        plugins = {name: plugin(world, layout, resource, hardware[name]) for name, resource in self.resources.items()}
        agents = {agent.name: agent.main() for agent in self.agents}
        return {**plugins, "driver": driver(world, layout, hardware["driver"]), **agents}

    def _on_one_machine(self, main: Main) -> Main:
        """All processes of a node have the clocks of its machine."""

        async def begin(process: Process) -> object:
            process.clock = self._clock
            return await main(process)

        return begin

    def _noted(self, made: Factory) -> Factory:
        """Let each process note its actor, for checks that read its state."""

        def factory(context: Any) -> Any:
            part = running(self.world).notes["actor"] = made(context)
            return part

        return factory

    def begin(self) -> None:
        layout = self._settings.layout
        for directory in (layout.run, layout.device_plugins, layout.plugins_registry, layout.plugins, layout.pod_logs,
                          layout.pod_resources_socket.parent, layout.devices, layout.runtime, layout.cdi):  # fmt: skip
            directory.mkdir(parents=True, exist_ok=True)
        self._notifications.begin()
        self._supervision = Supervision(
            self.world, Plan(specs=tuple(child(name, NODE) for name in ACTORS), settings=self._settings)
        )
        self.world.kill_by_fault = self._supervision.kill
        self.world.on_end.append(self._restart)
        for name in (SUPERVISOR, *self._others):
            self.world.spawn(name)
        self.load.begin()

    def _restart(self, process: Process, code: int, signal: int) -> None:
        """Start plugins, driver and agents again, as whoever deployed them does."""
        name, world = process.name, self.world
        if name in self._others:
            delay = world.random("restarts").uniform(*RESTART_S)
            world.at(delay, None, lambda: name in world.processes or world.spawn(name))

    def quiesce(self) -> None:
        self.load.ended = True
        self._supervision.start_failed()

    def check(self) -> list[Broken]:
        return Oracle(self).check()

    def counts(self) -> dict[str, int]:
        return {
            "pods": self.load.made,
            "pods_left": len(self.api.objects["pods"]),
            "starts": self.witness.starts,
            "k8s_events": self.api.recorded,
            "agent_events": sum(agent.events for agent in self.agents),
            "escalations": len(self._supervision.escalations),
        }


def _settings(world: "World") -> Settings:
    root = world.root
    machine = write_machine(root / "machine", MACHINE)
    rules = Alignment(cpuManagerPolicy="static", reservedSystemCPUs="0", sysfsRoot=str(machine))
    return msgspec.structs.replace(plane_settings(root), alignment=rules, healthz_port=0)


def hide_chance(world: "World") -> None:
    """Leave out of the trace what another run of the seed may have otherwise, and which decides nothing.

    The name of the run's directory, always of one length, and the order of maps in protobuf messages, which follows an
    address of the library: of a message its length and the sum of its bytes count.
    """
    trace, root = world.trace, str(world.root)
    raw, message, happened = root.encode(), trace.message, trace.happened

    def seen(now: float, sender: int, receiver: int, data: bytes) -> None:
        plain = data.replace(raw, b"") if raw in data else data
        message(now, sender, receiver, b"%d %d" % (len(plain), sum(plain)))

    trace.message = seen  # type: ignore[method-assign]
    trace.happened = lambda now, process, text: happened(now, process, text.replace(root, "ROOT"))  # type: ignore[method-assign]
