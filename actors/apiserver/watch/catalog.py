"""Everything this process serves: the table, a replica of each stored kind, and a hub of watches for each resource."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from actors.apiserver.api.request.target import unknown_path
from actors.apiserver.replica.own_writes import OwnWrite, OwnWrites
from actors.apiserver.replica.replica import Replica
from actors.apiserver.watch.hub import Hub, HubOptions
from actors.apiserver.watch.watcher import Meter
from protocols.bus import Bus, Following
from protocols.kinds.served.row import Served, Table
from protocols.kinds.table import DEFINITIONS
from protocols.messages.objects import OWNER, ObjectEvent, stream_of

T = TypeVar("T")


class CatalogOptions(msgspec.Struct, frozen=True):
    """Dependencies of replicas and hubs, shared by all of them."""

    bus: Bus
    meter_of: Callable[[Served], Meter]
    progress_of: Callable[[Served], Callable[[int], None]]
    """Return the function that a resource's replica calls when a request waits for a revision."""
    own_writes_of: Callable[[Served], OwnWrites]
    """Return the own writes of a resource's store."""


class _OfServed(dict[str, T]):
    """Parts of served resources. Raises NotFound: a definition may go while a request for its objects waits."""

    def __missing__(self, key: str) -> T:
        raise unknown_path()


class Catalog:
    """Replicas and hubs of all served resources, which change with custom resource definitions."""

    def __init__(self, table: Table, options: CatalogOptions) -> None:
        self.table = table
        self._options = options
        self._bus = options.bus
        self._of_hubs = HubOptions()
        self.replicas: dict[str, Replica] = _OfServed()
        """By `row.store`."""
        self.hubs: dict[str, Hub] = _OfServed()
        """By `row.gvr`."""
        self._following: dict[str, Following[ObjectEvent]] = {}
        for row in table.stored:
            self.replicas[row.store] = self._replica(row)
        for row in table.built_in:
            if not row.virtual:
                self.hubs[row.gvr] = self._hub(row)

    def start(self) -> None:
        for replica in self.replicas.values():
            self._follow(replica)

    def serve(self, rows: Iterable[Served]) -> None:
        """Replace the custom resources. A resource that remains must be the same object as before.

        Watches of removed and changed resources end. The replica of a kind remains while one of its versions is served.
        """
        wanted = tuple(rows)
        custom, kept = self.table.custom, set(wanted)
        for row in custom:
            if row not in kept:
                self.hubs.pop(row.gvr).retire()
        for store in {row.store for row in custom} - {row.store for row in wanted}:
            self._bus.unfollow(self._following.pop(store))
            self._options.own_writes_of(self.replicas.pop(store).resource).clear()
        for row in wanted:
            if row.store not in self.replicas:
                self.replicas[row.store] = self._replica(row)
                self._follow(self.replicas[row.store])
            if row.gvr not in self.hubs:
                self.hubs[row.gvr] = self._hub(row)
        self.table.replace(wanted)

    def on_written(self, resource: Served, write: OwnWrite) -> None:
        """Apply an acknowledged write of this process, and what waited for it.

        Definitions wait for the watch cache: the streams of their resources begin with its event.
        """
        if resource.store == DEFINITIONS.full_name:
            return
        own = self._options.own_writes_of(resource)
        own.add(resource.store, write)
        for name in tuple(own.waiting):
            if (replica := self.replicas.get(name)) is not None:
                replica.apply_own()

    def watched(self) -> Iterator[tuple[Replica, Hub]]:
        """Yield replicas and hubs with open watches."""
        for hub in tuple(self.hubs.values()):
            if not hub.empty.is_set():
                yield hub.replica, hub

    def _replica(self, row: Served) -> Replica:
        return Replica(row, self._options.progress_of(row), self._options.own_writes_of(row))

    def _follow(self, replica: Replica) -> None:
        row = replica.resource
        following = self._following[row.store] = self._bus.follow(
            owner=OWNER, stream=stream_of(row.group, row.plural), sink=replica, type=ObjectEvent
        )
        replica.refetch = following.refetch

    def _hub(self, row: Served) -> Hub:
        return Hub(self.replicas[row.store], replace(self._of_hubs, meter=self._options.meter_of(row)), row)
