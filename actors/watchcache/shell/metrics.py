"""Metrics of the watch cache under upstream's names, computed at scrape time."""

from collections.abc import Callable, Iterator, Sequence

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from actors.watchcache.cache.resource_cache import ResourceCache
from actors.watchcache.shell.backend import Backend

LABELS = ("group", "resource")
Figure = Callable[[ResourceCache], float]


class WatchcacheCollector(Collector):
    def __init__(self, backends: Sequence[Backend]) -> None:
        self._backends = backends

    def collect(self) -> Iterator[Metric]:
        yield self._gauge("watch_cache_capacity", "Capacity of the window.", lambda c: c.window.capacity)
        yield self._rare("watch_cache_capacity_increase", "Window doubled.", lambda c: c.window.increases)
        yield self._rare("watch_cache_capacity_decrease", "Window halved.", lambda c: c.window.decreases)
        received = "apiserver_watch_cache_events_received"
        yield self._rare(received, "Events taken into the cache.", lambda c: c.received)
        yield self._rare("apiserver_storage_events_received", "Events of the store.", lambda c: c.received)
        dispatched = "apiserver_watch_cache_events_dispatched"
        text = "Events and progress notifications sent to followers."
        yield self._counter(dispatched, text, lambda c: c.published + c.progress)
        initializations = "apiserver_watch_cache_initializations"
        yield self._counter(initializations, "Lists of the store.", lambda c: c.initializations)
        version = "apiserver_watch_cache_resource_version"
        yield self._gauge(version, "Revision of the cache, modulo 1e15.", lambda c: c.position % 10**15)
        yield self._counter("etcd_bookmark", "Progress notifications.", lambda c: c.progress)
        yield self._gauge("apiserver_resource_objects", "Stored objects.", lambda c: len(c.objects))
        yield self._objects()
        yield self._sizes()
        yield self._checks()
        reconnects = sum(backend.follower.reconnects for backend in self._backends)
        yield CounterMetricFamily("nodeplane_watchcache_reconnects", "Watches of the store opened again.", reconnects)

    def _objects(self) -> Metric:
        """Return the number of objects under the name that upstream deprecated in 1.34."""
        family = GaugeMetricFamily("apiserver_storage_objects", "Stored objects.", labels=("resource",))
        for cache in (cache for backend in self._backends for cache in backend.state.caches):
            family.add_metric([cache.resource.full_name], len(cache.objects))
        return family

    def _sizes(self) -> Metric:
        text = "Bytes of the store's database."
        family = GaugeMetricFamily("apiserver_storage_size_bytes", text, labels=("storage_cluster_id",))
        for number, backend in enumerate(self._backends):
            if backend.size is not None:
                family.add_metric([f"etcd-{number}"], backend.size)
        return family

    def _checks(self) -> Metric:
        text = "Comparisons of the cache with the store."
        family = CounterMetricFamily("apiserver_storage_consistency_checks", text, labels=(*LABELS, "status"))
        for cache in (cache for backend in self._backends for cache in backend.state.caches):
            for status, count in cache.checks.items():
                family.add_metric([cache.resource.group, cache.resource.plural, status], count)
        return family

    def _gauge(self, name: str, text: str, figure: Figure) -> Metric:
        return self._fill(GaugeMetricFamily(name, text, labels=LABELS), figure)

    def _counter(self, name: str, text: str, figure: Figure) -> Metric:
        return self._fill(CounterMetricFamily(name, text, labels=LABELS), figure)

    def _rare(self, name: str, text: str, figure: Figure) -> Metric:
        """Return a counter of the resources that have counted, as upstream's: most of a plane's never do."""
        return self._fill(CounterMetricFamily(name, text, labels=LABELS), figure, figure)

    def _fill(
        self, family: GaugeMetricFamily | CounterMetricFamily, figure: Figure, shown: Figure = lambda c: True
    ) -> Metric:
        for cache in (cache for backend in self._backends for cache in backend.state.caches):
            if shown(cache):
                family.add_metric([cache.resource.group, cache.resource.plural], figure(cache))
        return family
