"""The node profile: one node, pods that come and go, and a model of the API."""

from typing import TYPE_CHECKING

from tests.simulation.calls.install import install as install_calls
from tests.simulation.model import Broken, Main
from tests.simulation.node.api import ModelApi, use_model
from tests.simulation.node.clock_steps import ClockSteps
from tests.simulation.node.faults import NodeFaults
from tests.simulation.node.limits import draw_machine, draw_node
from tests.simulation.node.load import Load
from tests.simulation.node.machine import GPU, GPUS, NIC, NICS, Node, NodeShape
from tests.simulation.node.monitor import Monitor
from tests.simulation.node.notifications import Notifications
from tests.simulation.node.oracle import EXPECTED_ERRORS, Oracle
from tests.simulation.node.replaced import replace_machine
from tests.simulation.node.simulators import note_parts
from tests.simulation.node.trace import hide_chance
from tests.simulation.world.failures import failures
from tests.simulation.world.faults import MEANS
from tests.simulation.world.limits import draw_bus
from tests.simulation.world.supervision import SUPERVISION_FAULTS

if TYPE_CHECKING:
    from tests.simulation.world.world import World


LONG_S = 8.0
REMOVED_S, SANDBOX_S = 0.3, 2.0
"""Seconds that each way to or from the API takes at most, and each call of the runtime."""


class NodeProfile:
    kinds = ("kill", "pause", "cut", "all", "clock", *SUPERVISION_FAULTS, *NodeFaults.kinds, "api")
    means = MEANS

    def __init__(self, world: "World") -> None:
        self.world = world
        hide_chance(world)
        draw_bus(world)
        draw_node(world)
        self.api = ModelApi(world)
        use_model(self.api)
        self.sockets = install_calls(world)
        replace_machine(world, self.sockets, None)
        note_parts(world)
        self._notifications = Notifications(world)
        self.node = Node(world, NodeShape(name="n1", root=world.root, away_s=draw_machine(world), api=self.api))
        self.processes: dict[str, Main] = self.node.processes
        self.targets = self.node.targets
        cards = list(self.node.hardware[self.node.driver].health)
        self.load = Load(world, self.api, {GPU: GPUS, NIC: NICS}, cards)
        self._late = bool(world.draw("late_sandboxes", 1, 0))
        """True if sandboxes are made late for pods that come and go after the last fault."""
        self._undisturbed_s = LONG_S if self._late else world.draw("undisturbed_load_s", LONG_S, 2.0)
        """Seconds for which pods come and go after the last fault: no restart heals what goes wrong then."""
        self._faults = NodeFaults(world, self.sockets, (self.node,))
        self._monitor = Monitor(self.node, self._faults)
        self._clock_steps = ClockSteps(world, self.node.clock)

    def begin(self) -> None:
        self._notifications.begin()
        self._supervision = self.node.begin()
        self.world.kill_by_fault = self._supervision.kill
        self.load.begin()
        self._monitor.begin()
        self._clock_steps.begin()

    def quiesce(self) -> None:
        self._faults.end()
        self.world.at(self._undisturbed_s, None, self._clock_steps.end)
        if self.load.quiet:
            self.load.ended = True
            self._faults.lose_events()  # the last ones of a quiet node: none comes after them
        else:
            self.load.end_in(self._undisturbed_s)
            if self._late:
                self._make_sandboxes_late()
        self._supervision.start_failed()

    def _make_sandboxes_late(self) -> None:
        """Delete pods while they start, with a runtime that is slower than the API removes them."""
        self.load.young = 1.0
        self.api.slow_s, self.api.watches_slow_s = REMOVED_S, 0.0
        self.world.slow_threads["runtime"] = SANDBOX_S

    def check(self) -> list[Broken]:
        pods = self.api.objects["pods"].values()
        found = [Broken("no handler fails", text) for text in self.sockets.failures]
        found += [*failures(self.world, EXPECTED_ERRORS), *self._supervision.broken]
        return [*found, *Oracle(self.node, pods).check()]

    def counts(self) -> dict[str, int]:
        return {
            "pods": self.load.made,
            "pods_left": len(self.api.objects["pods"]),
            "starts": self.node.witness.starts,
            "k8s_events": self.api.recorded,
            "agent_events": sum(agent.events for agent in self.node.agents),
            "escalations": len(self._supervision.escalations),
        }
