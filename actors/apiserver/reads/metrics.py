"""Metrics of reads: their source, waits for a revision, numbers of objects."""

from prometheus_client import CollectorRegistry, Counter, Histogram

from protocols.kinds.served.row import Served
from protocols.process.families import CounterFamily, HistogramFamily

WAITS = (0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3)
KIND = ("group", "resource")
NO_INDEX = ""


WAIT = HistogramFamily(
    "apiserver_watch_cache_read_wait_seconds", "Seconds that reads waited for a revision of the replica.", KIND
)
CONSISTENT = CounterFamily(
    "apiserver_watch_cache_consistent_read_total",
    "Lists of the newest state; fallback is true if the store answered.",
    (*KIND, "success", "fallback"),
)
CACHED = CounterFamily("apiserver_cache_list_total", "Lists answered from the replica.", (*KIND, "index"))
CACHED_FETCHED = CounterFamily(
    "apiserver_cache_list_fetched_objects_total", "Objects of the replica read for lists.", (*KIND, "index")
)
CACHED_RETURNED = CounterFamily(
    "apiserver_cache_list_returned_objects_total", "Objects returned by lists from the replica.", KIND
)
STORED = CounterFamily("apiserver_storage_list_total", "Lists answered from the store.", KIND)
STORED_FETCHED = CounterFamily(
    "apiserver_storage_list_fetched_objects_total", "Objects read from the store for lists.", KIND
)
STORED_EVALUATED = CounterFamily(
    "apiserver_storage_list_evaluated_objects_total", "Objects of the store evaluated against selectors.", KIND
)
STORED_RETURNED = CounterFamily(
    "apiserver_storage_list_returned_objects_total", "Objects returned by lists from the store.", KIND
)


class ReadMetrics:
    """Counters of lists by their source: the replica (upstream's cache) or the store."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._waits = Histogram(*WAIT, buckets=WAITS, registry=registry)
        self._consistent = Counter(*CONSISTENT, registry=registry)
        self._cached = Counter(*CACHED, registry=registry)
        self._cached_fetched = Counter(*CACHED_FETCHED, registry=registry)
        self._cached_returned = Counter(*CACHED_RETURNED, registry=registry)
        self._stored = Counter(*STORED, registry=registry)
        self._stored_fetched = Counter(*STORED_FETCHED, registry=registry)
        self._stored_evaluated = Counter(*STORED_EVALUATED, registry=registry)
        self._stored_returned = Counter(*STORED_RETURNED, registry=registry)

    def waited(self, resource: Served, seconds: float) -> None:
        self._waits.labels(resource.group, resource.plural).observe(seconds)

    def consistent(self, resource: Served, success: bool, fallback: bool) -> None:
        labels = (str(success).lower(), str(fallback).lower())
        self._consistent.labels(resource.group, resource.plural, *labels).inc()

    def from_replica(self, resource: Served, fetched: int, returned: int) -> None:
        kind = (resource.group, resource.plural)
        self._cached.labels(*kind, NO_INDEX).inc()
        self._cached_fetched.labels(*kind, NO_INDEX).inc(fetched)
        self._cached_returned.labels(*kind).inc(returned)

    def from_store(self, resource: Served, fetched: int, evaluated: int, returned: int) -> None:
        kind = (resource.group, resource.plural)
        self._stored.labels(*kind).inc()
        self._stored_fetched.labels(*kind).inc(fetched)
        self._stored_evaluated.labels(*kind).inc(evaluated)
        self._stored_returned.labels(*kind).inc(returned)
