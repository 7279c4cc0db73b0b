"""Requests to the stores, and the newest revision each is known to have: what the replicas are measured by."""

import time
from types import TracebackType
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Histogram

from actors.apiserver.api.resource import Resource
from protocols.actor.histogram import WeightedChild, WeightedHistogram
from protocols.actor.tally import Count, Tally
from protocols.etcd import EtcdError

SECONDS = (0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60)
"""Buckets of latencies."""
ASKED = ("operation", "group", "resource")
LEASED = (10, 50, 100, 500, 1000, 2500, 5000)


class StoreMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.newest: dict[int, int] = {}
        """By number of the store: the highest revision an answer to this process has named."""
        seconds = "etcd_request_duration_seconds"
        self._seconds = WeightedHistogram(seconds, "Time of the store's answers.", ASKED, SECONDS, registry)
        self._total = Tally("etcd_requests", "Requests to the store.", ASKED, registry)
        self._errors = Tally("etcd_request_errors", "Those it did not answer.", ASKED, registry)
        leased = "etcd_lease_object_counts"
        self._known: dict[tuple[str, str, str], _Known] = {}
        self._leased = Histogram(leased, "Objects that shared a lease.", buckets=LEASED, registry=registry)

    def asked(self, operation: str, resource: Resource) -> "_Asked":
        """Around one request."""
        labels = (operation, resource.group, resource.plural)
        known = self._known.get(labels)
        if known is None:
            known = self._known[labels] = _Known(self._total.of(*labels), self._seconds.labels(*labels))
        known.total.inc()
        return _Asked(self, labels, known)

    def failed(self, labels: tuple[str, str, str]) -> None:
        self._errors.of(*labels).inc()

    def saw(self, store: int, revision: int) -> None:
        if revision > self.newest.get(store, 0):
            self.newest[store] = revision

    def stands(self, store: int, revision: int) -> None:
        """The store's own revision, which is lower than before once it was restored from a backup."""
        self.newest[store] = revision

    def lease_full(self, objects: int) -> None:
        """A lease gets no more objects."""
        self._leased.observe(objects)


class _Known(NamedTuple):
    """What is counted of one operation on one resource."""

    total: Count
    seconds: WeightedChild


class _Asked:
    """A context manager, by hand: one made of a generator costs as much as the request's packing."""

    __slots__ = ("_began", "_known", "_labels", "_metrics")

    def __init__(self, metrics: StoreMetrics, labels: tuple[str, str, str], known: _Known) -> None:
        self._metrics, self._labels, self._known = metrics, labels, known

    def __enter__(self) -> None:
        self._began = time.monotonic()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, EtcdError):
            self._metrics.failed(self._labels)
        self._known.seconds.observe(time.monotonic() - self._began)
