"""The scripts profile: a control plane and a node below one root and one supervisor, and a script that breaks them.

The seed decides which script, by its remainder, and limits, delays and the choices of `any`.
"""

from typing import TYPE_CHECKING

from actors.apiserver.actor import ApiServer
from protocols.actor.context import Context
from supervisor.base.groups import NODE, WATCHER, child, watcher, worker
from tests.simulation.calls.install import install as install_calls
from tests.simulation.control.plane import ControlPlane, ControlShape
from tests.simulation.control.servers import client_options
from tests.simulation.model import Broken, Main
from tests.simulation.node import machine
from tests.simulation.node.limits import draw_node
from tests.simulation.node.machine import ACTORS, Node, NodeShape
from tests.simulation.node.notifications import Notifications
from tests.simulation.node.oracle import EXPECTED_ERRORS, Oracle
from tests.simulation.node.replaced import replace_machine
from tests.simulation.node.simulators import note_parts
from tests.simulation.node.trace import hide_chance
from tests.simulation.scripts.script import RESOURCE, SCRIPTS, Played
from tests.simulation.world.actors import SUPERVISOR, actor
from tests.simulation.world.failures import failures
from tests.simulation.world.faults import MEANS
from tests.simulation.world.limits import draw_bus
from tests.simulation.world.patching import patch
from tests.simulation.world.process import Process

if TYPE_CHECKING:
    from tests.simulation.world.world import World

NAME, SCRIPT = "n1", "script"
RESTART_S = 0.5
MOST_SERVERS = 4
"""What scripts scale the watcher group to."""


class NoEvaluator:
    """Stands for the process that evaluates expressions of an added API server: nobody has one here."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def start(self) -> None:
        self._context.ready()

    async def stop(self) -> None: ...


class ScriptsProfile:
    kinds: tuple[str, ...] = ()
    means = MEANS

    def __init__(self, world: "World") -> None:
        self.world = world
        hide_chance(world)
        draw_bus(world)
        draw_node(world)
        patch(machine, "GPU", RESOURCE)
        patch(machine, "VARIABLES", {**machine.VARIABLES, "EXAMPLE_COM_GPU": RESOURCE})
        self._sockets = install_calls(world)
        root = world.root / NAME
        self._control = ControlPlane(world, root, ControlShape(servers=1, works=True, draws_budget=False))
        settings = self._control.settings
        replace_machine(world, self._sockets, client_options(settings, "admin"))
        note_parts(world)
        self._notifications = Notifications(world)
        self._node = Node(world, NodeShape(name=NAME, root=root, api_url=settings.api_url, agents=0))
        self._script = Played(world, SCRIPTS[world.seed % len(SCRIPTS)], settings.layout)
        supervised = {**self._control.processes, **self._node.processes}
        self.processes: dict[str, Main] = {**supervised, **self._added(), SCRIPT: self._script.main()}
        self.targets = (*supervised, SUPERVISOR)

    def _added(self) -> dict[str, Main]:
        """Return what `scale` may start."""
        settings, found = self._control.settings, dict[str, Main]()
        for number in range(1, MOST_SERVERS):
            name = watcher(number).instance
            beside = worker(name, WATCHER).instance
            found |= {name: actor(name, ApiServer, settings), beside: actor(beside, NoEvaluator, settings)}
        return found

    def begin(self) -> None:
        self._notifications.begin()
        self._node.make_directories()
        self._control.begin(SUPERVISOR, tuple(child(name, NODE) for name in ACTORS), (*self._node.beside, SCRIPT))
        self._node.begin_beside()
        self.world.on_end.append(self._restart)
        self.world.spawn(SCRIPT)

    def _restart(self, process: Process, code: int, signal: int) -> None:
        """Begin the script anew: only a power cut ends it, before there is an API for its first line."""
        if process.name == SCRIPT:
            self.world.at(RESTART_S, None, lambda: self.world.spawn(SCRIPT))

    def quiesce(self) -> None:
        """The script ends by itself."""

    def check(self) -> list[Broken]:
        pods = self._control.history.stored("pods")["pods"].values()
        found = [Broken("no handler fails", text) for text in self._sockets.failures]
        found += failures(self.world, EXPECTED_ERRORS)
        found += self._control.history.contradictions()
        found += Oracle(self._node, pods).check()
        if not self._script.done:
            found.append(Broken("scripts are played to their end", self._script.failure or f"at {self._script.line}"))
        return found

    def counts(self) -> dict[str, int]:
        return {"commits": len(self._control.history.committed), "starts": self._node.witness.starts}
