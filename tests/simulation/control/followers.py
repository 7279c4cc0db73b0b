"""Replicas of API servers alone: one resource, followed over the bus, with every change recorded."""

from typing import TYPE_CHECKING

from actors.apiserver.api.resource import Resource
from actors.apiserver.replica.replica import Replica
from actors.apiserver.replica.window import Change
from protocols.actor import Context
from protocols.messages.objects import OWNER, ObjectEvent, stream_of
from tests.simulation.control.history import History, Seen
from tests.simulation.world.process import running

if TYPE_CHECKING:
    from tests.simulation.world.world import World


class FollowerActor:
    """An actor that holds a replica of one resource."""

    def __init__(self, context: Context, row: Resource, history: History, world: "World") -> None:
        self._context, self._row = context, row
        self._process = running(world)
        self._seen = Seen(f"{context.instance} pid {self._process.pid}")
        history.see(self._seen)

    async def start(self) -> None:
        replica = Replica(self._row)
        self._process.notes["replicas"] = [replica]
        replica.listen(self._on_change)
        replica.listen_mark(lambda mark: self._seen.marks.append((len(self._seen.changes), mark)))
        stream = stream_of(self._row.group, self._row.plural)
        following = self._context.bus.follow(owner=OWNER, stream=stream, sink=replica, type=ObjectEvent)
        replica.refetch = following.refetch
        self._context.ready()

    def _on_change(self, change: Change) -> None:
        self._seen.changes.append((change.rv, change.key, change.after is None))

    async def stop(self) -> None: ...
