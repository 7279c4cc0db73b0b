"""Pods that are gone from the runtime of one node: pleg must not show them again because of an event that is late.

A restored backup may give a pod back, and pleg may hear of the end of its first sandbox when the next one has come and
gone as well: so each sandbox counts by itself.
"""

from typing import TYPE_CHECKING, Any

from actors.pleg.shell.publisher import PodPublisher
from actors.pleg.state_machine.status_merger import StatusChange
from actors.runtime.model.containers import Sandbox
from actors.runtime.model.pods import RuntimePods
from tests.simulation.world.patching import patch
from tests.simulation.world.process import running

if TYPE_CHECKING:
    from tests.simulation.node.witness import Witness
    from tests.simulation.world.world import World


class Removals:
    """Observes sandboxes at the runtime and what pleg publishes. Events are ordered by their stamps, so that it is
    silent from the first jump of a clock on."""

    def __init__(self, world: "World", witness: "Witness") -> None:
        self._world, self._witness = world, witness
        self._clock_ahead: float | None = None
        self.stamps_true = True
        """False once events were misdated."""
        self._sandboxes: set[str] = set()
        """Ids of those that the runtime has."""
        self._shown: dict[str, set[str]] = {}
        """Ids of the sandboxes that pleg has shown, by pod uid."""
        self._gone: set[str] = set()
        """Ids of those that went when pleg reported their pod as gone."""
        removals, add, remove, put = self, RuntimePods.add_sandbox, RuntimePods.remove_sandbox, PodPublisher.put

        def on_add(pods: RuntimePods, sandbox: Sandbox) -> None:
            add(pods, sandbox)
            if witness.sees("runtime"):
                removals._sandboxes.add(sandbox.id)

        def on_remove(pods: RuntimePods, sandbox: Sandbox) -> None:
            remove(pods, sandbox)
            if witness.sees("runtime"):
                removals._sandboxes.discard(sandbox.id)

        def on_put(publisher: PodPublisher, change: StatusChange, *given: Any) -> None:
            if witness.sees("pleg"):
                removals._published(change)
            put(publisher, change, *given)

        patch(RuntimePods, "add_sandbox", on_add)
        patch(RuntimePods, "remove_sandbox", on_remove)
        patch(PodPublisher, "put", on_put)

    def _published(self, change: StatusChange) -> None:
        clock = running(self._world).clock
        if self._clock_ahead is None:
            self._clock_ahead = clock.wall
        self.stamps_true = self.stamps_true and clock.wall == self._clock_ahead and clock.stopped_at is None
        if change.status is None:
            self._gone |= self._shown.pop(change.uid, set())
            return
        shown = {sandbox.id for sandbox in change.status.sandboxes}
        self._shown.setdefault(change.uid, set()).update(shown)
        if shown & self._gone - self._sandboxes and self.stamps_true:
            self._witness.break_promise("a pod that is gone stays gone", f"{change.uid} is back in pleg's statuses")
