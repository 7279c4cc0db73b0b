"""The workloads profile: each seed runs two of the flows, each in a namespace of its own."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from protocols.kubeclient.client import ClientOptions
from tests.simulation.control.plane import ControlPlane, ControlShape
from tests.simulation.control.servers import client_options
from tests.simulation.control.workloads import nodes
from tests.simulation.model import Broken, Main
from tests.simulation.workloads.definitions import Definitions
from tests.simulation.workloads.evictions import Evictions
from tests.simulation.workloads.flow import Flow, in_order
from tests.simulation.workloads.jobs import Jobs
from tests.simulation.workloads.owners import Owners
from tests.simulation.workloads.quotas import Quotas
from tests.simulation.workloads.rollouts import Rollouts
from tests.simulation.workloads.spaces import Spaces
from tests.simulation.world.actors import SUPERVISOR
from tests.simulation.world.failures import failures
from tests.simulation.world.limits import draw_bus
from tests.simulation.world.process import Process
from tests.simulation.world.supervision import SUPERVISION_FAULTS

if TYPE_CHECKING:
    from tests.simulation.world.world import World

RESTART_S = 0.01, 0.5
FLOWS = 2
"""In each seed."""
PODS_PER_NODE = 40
SETTLE_S = 45.0
"""Beyond the usual seconds without faults: charges of a quota without an object expire, and back-offs of jobs end."""
NODES = "nodes"
Makers = tuple[Callable[[], Flow], ...]


class WorkloadsProfile:
    kinds: tuple[str, ...] = ("kill", "crash", "pause", "cut", "all", "oneway", "halfopen", *SUPERVISION_FAULTS)
    means: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0)
    etcd_share = 0.4
    flows: Makers = (Jobs, Rollouts, Evictions, Quotas, Spaces, Owners)

    def __init__(self, world: "World") -> None:
        self._world = world
        draw_bus(world)
        self._plane = ControlPlane(world, world.root, ControlShape(servers=2, works=True, etcd_share=self.etcd_share))
        world.bus.lag["apiserver-1"] = world.draw("server_lag_s", 0.5, 0.05, 0.0)
        self.kinds += tuple(kind for kind in self._plane.faults if kind != "restore")
        admin = client_options(self._plane.settings, "admin")
        made = [make() for make in self.flows]
        self._flows = world.random("flows").sample(made, min(FLOWS, len(made)))
        self._users = {name: main for flow in self._flows for name, main in flow.users(admin).items()}
        self._clients = {**self.stand_ins(admin), **self._users}
        self.processes: dict[str, Main] = {**self._plane.processes, **self._clients}
        self.targets: tuple[str, ...] = (*self.processes, SUPERVISOR)
        self._quiet = False

    def stand_ins(self, options: ClientOptions) -> dict[str, Main]:
        """Return what lives to the end beside the plane."""
        return {NODES: nodes(options, PODS_PER_NODE)}

    def begin(self) -> None:
        self._supervision = self._plane.begin(SUPERVISOR)
        self._world.kill_by_fault = self._supervision.kill
        self._world.on_end.append(self._restart)
        for name in self._clients:
            self._world.spawn(name)

    def _restart(self, process: Process, code: int, signal: int) -> None:
        if process.name in self._clients:
            delay = self._world.random("restarts").uniform(*RESTART_S)
            self._world.at(delay, None, lambda: self._start(process.name))

    def _start(self, name: str) -> None:
        if name not in self._world.processes and not (self._quiet and name in self._users):
            self._world.spawn(name)

    def quiesce(self) -> None:
        self._quiet = True
        self._supervision.start_failed()
        for name in self._users:
            self._world.kill(name)
        self._world.run(SETTLE_S)

    def check(self) -> list[Broken]:
        history, world = self._plane.history, self._world
        found = [*history.contradictions(), *failures(world), *self._supervision.broken]
        lasting = [name for name in self.processes if name not in self._users]
        missing = [name for name in lasting if name not in world.processes]
        found += [Broken("converged", f"{name} does not run") for name in missing]
        commits = list(in_order(history))
        for flow in self._flows:
            ours = [each for each in commits if (each.namespace or each.name).startswith(flow.name)]
            found += flow.check(ours)
        return found

    def counts(self) -> dict[str, int]:
        commits = [each.resource for each in in_order(self._plane.history)]
        return {resource: commits.count(resource) for resource in sorted(set(commits))}


class CustomProfile(WorkloadsProfile):
    """A custom resource, beside namespaces that end."""

    flows: Makers = (Definitions, Spaces)

    def stand_ins(self, options: ClientOptions) -> dict[str, Main]:
        viewers = (flow.viewers(options) for flow in self._flows if isinstance(flow, Definitions))
        return super().stand_ins(options) | next(viewers)
