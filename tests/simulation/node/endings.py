"""Containers that take their time to end, or need SIGKILL, and the check that each has the time to do so."""

import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

from actors.podworker.pods.containers.killer import LEAST_GRACE_S
from actors.runtime.backends.hollow import HollowBackend
from actors.runtime.model.containers import Container, ContainerState
from tests.simulation.world.patching import patch
from tests.simulation.world.process import running

if TYPE_CHECKING:
    from tests.simulation.node.witness import Witness
    from tests.simulation.world.world import World

EXACT_S = 0.01
STARTED_S = 2.0
"""Seconds in which a container may be killed without a signal, as with kubelet: the pod was deleted while the start was
under way, and the container did not run when its pod's status was read."""


class Endings:
    """Delays what a stop signal does to the hollow containers of one node, and observes who is killed."""

    def __init__(self, world: "World", witness: "Witness", prefix: str) -> None:
        self._world, self._witness = world, witness
        self._chance = world.random(f"{prefix}endings")
        self._longest = world.draw(f"{prefix}ending_s", 3.0, 0.5, 0.0)
        self._asked: dict[str, float] = {}
        """Elapsed seconds of the first stop signal, by container id."""
        endings, end, kill = self, HollowBackend.signal, HollowBackend.kill

        def on_signal(backend: HollowBackend, container: Container, number: int) -> None:
            if number == signal.SIGKILL or not witness.sees("runtime"):
                end(backend, container, number)
            else:
                endings._later(container, lambda: end(backend, container, number))

        def on_kill(backend: HollowBackend, container: Container) -> None:
            if witness.sees("runtime"):
                endings._killed(container)
            kill(backend, container)

        patch(HollowBackend, "signal", on_signal)
        patch(HollowBackend, "kill", on_kill)

    def _later(self, container: Container, end: Callable[[], object]) -> None:
        self._asked.setdefault(container.id, self._world.elapsed)
        if not self._longest:
            end()
            return

        def due() -> None:
            if container.life.state is ContainerState.RUNNING:
                end()

        self._world.at(self._chance.uniform(0.0, self._longest), running(self._world), due)

    def _killed(self, container: Container) -> None:
        """Check that a container was asked to end, and had the time that each pod's containers have at least."""
        asked, changed = self._asked.get(container.id), self._witness.changed.get(container.id, 0.0)
        if asked is None and self._world.elapsed - changed < STARTED_S:
            return
        if asked is None or self._world.elapsed - asked < LEAST_GRACE_S - EXACT_S:
            had = "without a signal" if asked is None else f"{self._world.elapsed - asked:.2f} s after its signal"
            text = f"{container.sandbox.config.metadata.name} {container.config.metadata.name} is killed {had}"
            self._witness.break_promise("a container has its grace period", text)
