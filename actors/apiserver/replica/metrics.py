"""Metrics of replicas: their revisions, and how far these are behind the store."""

import time
from collections.abc import Callable, Iterable

import msgspec
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from actors.apiserver.replica.replica import Replica


class ReplicaStatus(msgspec.Struct, frozen=True):
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
        yield _gauge("lag", "Seconds since the replica moved.", held, lambda s: now - s.replica.changed_at)
        yield _gauge("revision", "Revision applied.", statuses, lambda s: s.replica.mark)
        text = "Revisions its store is known to be ahead: of writes and reads of this process."
        yield _gauge("behind_revisions", text, statuses, lambda s: max(0, s.newest - s.replica.mark))
        yield _gauge("synced", "1: following its owner.", statuses, lambda s: float(s.replica.synced))
        yield _gauge("objects", "Objects held.", held, lambda s: len(s.replica.objects))
        text = "Values in the store that are no object this server can read."
        yield _gauge("unreadable", text, [s for s in statuses if s.replica.corrupt], lambda s: len(s.replica.corrupt))
        text = "Times the store's history was replaced, as by a restored backup."
        replaced = [status for status in statuses if status.replica.histories_replaced]
        yield _gauge("histories_replaced", text, replaced, lambda s: s.replica.histories_replaced)
        yield _gauge("window", "Changes kept, to resume watches from.", held, lambda s: len(s.replica.window))

    def describe(self) -> Iterable[Metric]:
        return []


def _gauge(name: str, text: str, statuses: list[ReplicaStatus], figure: Callable[[ReplicaStatus], float]) -> Metric:
    family = GaugeMetricFamily(f"nodeplane_replica_{name}", text, labels=["group", "resource"])
    for status in statuses:
        row = status.replica.resource
        family.add_metric([row.group, row.plural], figure(status))
    return family
