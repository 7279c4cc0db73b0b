"""Replicas of API servers alone: resources followed over the bus, with every change of the first recorded."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from actors.apiserver.replica.replica import Replica
from actors.apiserver.replica.window import Change
from protocols.actor import Context
from protocols.bus import Following
from protocols.kinds.served.row import Served
from protocols.messages.objects import OWNER, ObjectEvent, stream_of
from tests.simulation.control.history import History, Seen
from tests.simulation.world.process import running

if TYPE_CHECKING:
    from tests.simulation.world.world import World


class FollowerActor:
    """An actor that holds replicas of some resources; what the first delivers is recorded."""

    def __init__(self, context: Context, rows: Sequence[Served], history: History, world: "World") -> None:
        self._context, self._row, self._beside = context, rows[0], rows[1:]
        self._process = running(world)
        self._seen = Seen(f"{context.instance} pid {self._process.pid}")
        history.see(self._seen)

        self._history, self._world = history, world

    async def start(self) -> None:
        replica = self._replica = Replica(self._row)
        replica.listen(self._on_change)
        replica.listen_mark(self._on_mark)
        self._process.notes["following"] = self._follow(replica)
        beside = [Replica(row) for row in self._beside]
        for each in beside:
            self._follow(each)
        self._process.notes["replicas"] = [replica, *beside]
        self._context.ready()

    def _follow(self, replica: Replica) -> Following[ObjectEvent]:
        stream = stream_of(replica.resource.group, replica.resource.plural)
        following = self._context.bus.follow(owner=OWNER, stream=stream, sink=replica, type=ObjectEvent)
        replica.refetch = following.refetch
        return following

    def _on_change(self, change: Change) -> None:
        self._seen.changes.append((change.rv, change.key, change.after is None))

    def _on_mark(self, mark: int) -> None:
        """Compare the state with the store's at the mark; of the mark's own revision a part may be missing."""
        self._seen.marks.append((len(self._seen.changes), mark))
        wanted = self._history.held_at(self._row.storage_prefix, mark)
        held = {each.key: each.rv for each in self._replica.objects.below("")}
        if held == wanted or not self._history.settled or self._history.reused:
            return
        changed = self._history.changed_at(self._row.storage_prefix, mark)
        wrong = [key for key in sorted(held.keys() | wanted.keys()) if held.get(key) != wanted.get(key)]
        if not changed.issuperset(wrong):
            key = next(key for key in wrong if key not in changed)
            text = f"{self._seen.who} at {mark}: {key} is of {held.get(key)}, the store's of {wanted.get(key)}"
            self._history.diverged.append((self._world.elapsed, text))

    async def stop(self) -> None: ...
