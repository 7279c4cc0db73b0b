"""Metrics of reads: their source, waits for a revision, numbers of objects."""

from prometheus_client import CollectorRegistry, Counter, Histogram

from protocols.kinds.served.row import Served

WAITS = (0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3)
KIND = ("group", "resource")
NO_INDEX = ""


class ReadMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        cache, store = "apiserver_cache_list", "apiserver_storage_list"
        self._waits = Histogram(
            "apiserver_watch_cache_read_wait_seconds",
            "Waits of reads for a revision.",
            KIND,
            buckets=WAITS,
            registry=registry,
        )
        self._consistent = Counter(
            "apiserver_watch_cache_consistent_read",
            "Lists of the newest state.",
            (*KIND, "success", "fallback"),
            registry=registry,
        )
        self._cached = Counter(cache, "Lists from the replica.", (*KIND, "index"), registry=registry)
        fetched = f"{cache}_fetched_objects"
        self._cached_fetched = Counter(
            fetched, "Objects of the replica evaluated for lists.", (*KIND, "index"), registry=registry
        )
        self._cached_returned = Counter(
            f"{cache}_returned_objects", "Objects in lists from the replica.", KIND, registry=registry
        )
        self._stored = Counter(store, "Lists from the store.", KIND, registry=registry)
        self._stored_fetched = Counter(
            f"{store}_fetched_objects", "Objects read from the store for lists.", KIND, registry=registry
        )
        evaluated = f"{store}_evaluated_objects"
        self._stored_evaluated = Counter(
            evaluated, "Objects from the store matched against selectors.", KIND, registry=registry
        )
        self._stored_returned = Counter(f"{store}_returned_objects", "Objects in them.", KIND, registry=registry)

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
