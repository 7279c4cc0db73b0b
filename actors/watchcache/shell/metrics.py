"""Metrics of the watch cache under upstream's names, computed at scrape time."""

from collections.abc import Callable, Iterator, Sequence

from prometheus_client import Metric
from prometheus_client.registry import Collector

from actors.watchcache.cache.resource_cache import ResourceCache
from actors.watchcache.shell.backend import StoreBackend
from protocols.actor.metrics import labelled, single
from protocols.process.families import CounterFamily, GaugeFamily

LABELS = ("group", "resource")
Figure = Callable[[ResourceCache], float]

CAPACITY = GaugeFamily("watch_cache_capacity", "Changes for which a resource's window has room.", LABELS)
INCREASES = CounterFamily("watch_cache_capacity_increase_total", "Times that a resource's window was doubled.", LABELS)
DECREASES = CounterFamily("watch_cache_capacity_decrease_total", "Times that a resource's window was halved.", LABELS)
RECEIVED = CounterFamily(
    "apiserver_watch_cache_events_received_total", "Events of the store that were added to the cache.", LABELS
)
STORE_EVENTS = CounterFamily(
    "apiserver_storage_events_received_total", "Events of a resource that the store sent.", LABELS
)
DISPATCHED = CounterFamily(
    "apiserver_watch_cache_events_dispatched_total", "Events and progress published to the API servers.", LABELS
)
LISTS = CounterFamily("apiserver_watch_cache_initializations_total", "Lists of the store that fill the cache.", LABELS)
REVISION = GaugeFamily("apiserver_watch_cache_resource_version", "Revision of the cache, modulo 1e15.", LABELS)
BOOKMARKS = CounterFamily("etcd_bookmark_total", "Progress notifications of the store.", LABELS)
OBJECTS = GaugeFamily("apiserver_resource_objects", "Stored objects of a resource.", LABELS)
OLD_OBJECTS = GaugeFamily(
    "apiserver_storage_objects",
    "Stored objects of a resource; upstream deprecates the name for apiserver_resource_objects.",
    ("resource",),
)
SIZE = GaugeFamily(
    "apiserver_storage_size_bytes", "Bytes of the database of a store, which is called etcd-N.", ("storage_cluster_id",)
)
CHECKS = CounterFamily(
    "apiserver_storage_consistency_checks_total",
    "Comparisons of cache and store, each 5 minutes; status is success, failure, or error if the store did not answer.",
    (*LABELS, "status"),
)
RECONNECTS = CounterFamily("nodeplane_watchcache_reconnects_total", "Watches of the store that were reopened.")


class WatchcacheCollector(Collector):
    """Collector of all stores; it reads the counters of the caches."""

    def __init__(self, backends: Sequence[StoreBackend]) -> None:
        self._backends = backends

    def collect(self) -> Iterator[Metric]:
        yield self._all(CAPACITY, lambda c: c.window.capacity)
        yield self._rare(INCREASES, lambda c: c.window.increases)
        yield self._rare(DECREASES, lambda c: c.window.decreases)
        yield self._rare(RECEIVED, lambda c: c.received)
        yield self._rare(STORE_EVENTS, lambda c: c.received)
        yield self._all(DISPATCHED, lambda c: c.published + c.progress)
        yield self._all(LISTS, lambda c: c.initializations)
        yield self._all(REVISION, lambda c: c.position % 10**15)
        yield self._all(BOOKMARKS, lambda c: c.progress)
        yield self._all(OBJECTS, lambda c: len(c.objects))
        yield self._objects()
        yield self._sizes()
        yield self._checks()
        yield single(RECONNECTS, sum(backend.follower.reconnects for backend in self._backends))

    def _objects(self) -> Metric:
        """Return the number of objects under the name that upstream deprecated in 1.34."""
        family = labelled(OLD_OBJECTS)
        for cache in (cache for backend in self._backends for cache in backend.state.caches):
            family.add_metric([cache.resource.full_name], len(cache.objects))
        return family

    def _sizes(self) -> Metric:
        family = labelled(SIZE)
        for number, backend in enumerate(self._backends):
            if backend.size is not None:
                family.add_metric([f"etcd-{number}"], backend.size)
        return family

    def _checks(self) -> Metric:
        family = labelled(CHECKS)
        for cache in (cache for backend in self._backends for cache in backend.state.caches):
            for status, count in cache.checks.items():
                family.add_metric([cache.resource.group, cache.resource.plural, status], count)
        return family

    def _rare(self, declared: CounterFamily, figure: Figure) -> Metric:
        """Return a counter of the resources that have counted, as upstream's: most of a plane's never do."""
        return self._all(declared, figure, figure)

    def _all(self, declared: CounterFamily | GaugeFamily, figure: Figure, shown: Figure = lambda c: True) -> Metric:
        family = labelled(declared)
        for cache in (cache for backend in self._backends for cache in backend.state.caches):
            if shown(cache):
                family.add_metric([cache.resource.group, cache.resource.plural], figure(cache))
        return family
