"""The plane profile: pods are created through the API, scheduled by the scheduler and run by the nodes' podworkers."""

from typing import TYPE_CHECKING

from tests.simulation.calls.install import install as install_calls
from tests.simulation.control.plane import ControlPlane, ControlShape
from tests.simulation.control.servers import client_options
from tests.simulation.model import Broken, Main
from tests.simulation.node.faults import NodeFaults
from tests.simulation.node.limits import draw_machine, draw_node
from tests.simulation.node.machine import Node, NodeShape
from tests.simulation.node.monitor import Monitor
from tests.simulation.node.notifications import Notifications
from tests.simulation.node.replaced import replace_machine
from tests.simulation.node.simulators import note_parts
from tests.simulation.node.trace import hide_chance
from tests.simulation.plane.oracle import check
from tests.simulation.plane.users import User
from tests.simulation.world.actors import SUPERVISOR
from tests.simulation.world.limits import draw_bus
from tests.simulation.world.process import Process
from tests.simulation.world.supervision import SUPERVISION_FAULTS, Supervision

if TYPE_CHECKING:
    from tests.simulation.world.world import World

RESTART_S = 0.01, 0.5
NODES = 2


class PlaneProfile:
    kinds: tuple[str, ...] = ("kill", "pause", "cut", "all", "oneway", *SUPERVISION_FAULTS, *NodeFaults.kinds)
    means: tuple[float, ...] = (0.3, 1.0, 3.0)
    etcd_share = 0.7

    def __init__(self, world: "World") -> None:
        self.world = world
        hide_chance(world)
        draw_bus(world)
        draw_node(world)
        self.sockets = install_calls(world)
        shape = ControlShape(servers=2, works=True, etcd_share=self.etcd_share)
        self.control = ControlPlane(world, world.root / "control", shape)
        settings = self.control.settings
        admin = client_options(settings, "admin")
        replace_machine(world, self.sockets, admin)
        note_parts(world)
        self._notifications = Notifications(world)
        self.nodes = [self._node(f"n{number}") for number in range(1, NODES + 1)]
        self.user = User(world, "user", admin)
        self._clients = {"user": self.user.main()}
        self.processes: dict[str, Main] = {**self.control.processes, **self._clients}
        self.targets: tuple[str, ...] = (*self.control.processes, SUPERVISOR, "user")
        for node in self.nodes:
            self.processes |= node.processes
            self.targets += node.targets
        self.kinds += self.control.faults
        if self.control.cluster:
            self.control.cluster.on_restore.append(self._restored)
        self._faults = NodeFaults(world, self.sockets, self.nodes)
        self._monitors = [Monitor(node, self._faults) for node in self.nodes]

    def _node(self, name: str) -> Node:
        root, url = self.world.root / name, self.control.settings.api_url
        away = draw_machine(self.world, f"{name}.")
        shape = NodeShape(name=name, root=root, prefix=f"{name}.", api_url=url, agents=1, away_s=away)
        return Node(self.world, shape)

    def _restored(self, revision: int, bump: int) -> None:
        """Objects that were deleted since the backup are back, and those that were created are gone."""
        self.user.prepared = False
        for node in self.nodes:
            for agent in node.agents:
                agent.restored({f"default/pod-{number}" for number in range(1, self.user.made + 1)})

    def begin(self) -> None:
        self._notifications.begin()
        self.supervisions = [self.control.begin(SUPERVISOR), *(node.begin() for node in self.nodes)]
        self.world.kill_by_fault = self._kill
        self.world.on_end.append(self._restart)
        for name in self._clients:
            self.world.spawn(name)
        for monitor in self._monitors:
            monitor.begin()

    def _kill(self, name: str) -> None:
        self._supervision(name).kill(name)

    def _supervision(self, name: str) -> Supervision:
        control, *nodes = self.supervisions
        return next((node for node in nodes if name.startswith(node.prefix)), control)

    def _restart(self, process: Process, code: int, signal: int) -> None:
        name, world = process.name, self.world
        if name in self._clients:
            delay = world.random("restarts").uniform(*RESTART_S)
            world.at(delay, None, lambda: name in world.processes or world.spawn(name))

    def quiesce(self) -> None:
        self.user.ended = True
        self._faults.end()
        for supervision in self.supervisions:
            supervision.start_failed()

    def check(self) -> list[Broken]:
        return check(self)

    def counts(self) -> dict[str, int]:
        history = self.control.history
        return {
            "pods": self.user.made,
            "pods_left": len(history.stored("pods")["pods"]),
            "starts": sum(node.witness.starts for node in self.nodes),
            "commits": len(history.committed),
            "skips": len(history.skips),
            "agent_events": sum(agent.events for node in self.nodes for agent in node.agents),
            "escalations": sum(len(supervision.escalations) for supervision in self.supervisions),
        }
