"""Metrics of replicas: their revisions, and how far these are behind the store."""

import time
from collections.abc import Callable, Iterable

import msgspec
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from actors.apiserver.replica.replica import Replica
from protocols.actor.metrics import labelled
from protocols.process.families import GaugeFamily

LABELS = ("group", "resource")
LAG = GaugeFamily(
    "nodeplane_replica_lag",
    "Seconds since the replica's last change; absent while it holds neither an object nor a change.",
    LABELS,
)
REVISION = GaugeFamily("nodeplane_replica_revision", "Revision that the replica has applied.", LABELS)
BEHIND = GaugeFamily(
    "nodeplane_replica_behind_revisions",
    "Revisions by which the store is ahead, as known from this process's reads and writes.",
    LABELS,
)
SYNCED = GaugeFamily("nodeplane_replica_synced", "1 while the replica is synced with its owner, else 0.", LABELS)
OBJECTS = GaugeFamily(
    "nodeplane_replica_objects", "Objects that the replica holds; absent as nodeplane_replica_lag.", LABELS
)
UNREADABLE = GaugeFamily(
    "nodeplane_replica_unreadable",
    "Values in the store that are no object this server can read; the log names their keys. Absent while 0.",
    LABELS,
)
REPLACED = GaugeFamily(
    "nodeplane_replica_histories_replaced",
    "Times the store's history was replaced, as by a restored backup; absent while 0.",
    LABELS,
)
WINDOW = GaugeFamily(
    "nodeplane_replica_window", "Changes retained to resume watches from; absent as nodeplane_replica_lag.", LABELS
)


class ReplicaStatus(msgspec.Struct, frozen=True):
    """A replica, with the revision that it would have without lag."""

    replica: Replica
    newest: int
    """Newest revision of its store that a read or write of this process has returned."""


class ReplicaCollector(Collector):
    """Replicas that hold neither an object nor a change have their position only: most of a plane's."""

    def __init__(self, statuses: Callable[[], Iterable[ReplicaStatus]]) -> None:
        self._replica_statuses = statuses

    def collect(self) -> Iterable[Metric]:
        now = time.monotonic()
        statuses = list(self._replica_statuses())
        held = [status for status in statuses if status.replica.objects or status.replica.window]
        yield _gauge(LAG, held, lambda s: now - s.replica.changed_at)
        yield _gauge(REVISION, statuses, lambda s: s.replica.mark)
        yield _gauge(BEHIND, statuses, lambda s: max(0, s.newest - s.replica.mark))
        yield _gauge(SYNCED, statuses, lambda s: float(s.replica.synced))
        yield _gauge(OBJECTS, held, lambda s: len(s.replica.objects))
        yield _gauge(UNREADABLE, [s for s in statuses if s.replica.corrupt], lambda s: len(s.replica.corrupt))
        replaced = [status for status in statuses if status.replica.histories_replaced]
        yield _gauge(REPLACED, replaced, lambda s: s.replica.histories_replaced)
        yield _gauge(WINDOW, held, lambda s: len(s.replica.window))


def _gauge(declared: GaugeFamily, statuses: list[ReplicaStatus], figure: Callable[[ReplicaStatus], float]) -> Metric:
    family = labelled(declared)
    for status in statuses:
        row = status.replica.resource
        family.add_metric([row.group, row.plural], figure(status))
    return family
