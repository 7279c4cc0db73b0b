"""Metrics of one API server process, under upstream's names."""

import time
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from actors.apiserver.target import Target
from actors.apiserver.types import Resource
from actors.apiserver.watch.meter import Meter

SECONDS = (0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60)
REQUEST = ("verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component")
LONG = ("verb", "group", "version", "resource", "subresource", "scope", "component")


class Metrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter("apiserver_request", "Requests answered.", (*REQUEST, "code"), registry=registry)
        self.seconds = Histogram(
            "apiserver_request_duration_seconds", "Time to answer.", REQUEST, buckets=SECONDS, registry=registry
        )
        self.long_running = Gauge("apiserver_longrunning_requests", "Open watches.", LONG, registry=registry)
        self.watch_events = Counter(
            "apiserver_watch_events", "Events queued to clients.", ("group", "version", "resource"), registry=registry
        )
        self.terminated = Counter(
            "apiserver_terminated_watchers", "Watches ended for slowness.", ("group", "resource"), registry=registry
        )

        self._open: dict[tuple[str, ...], OpenWatches] = {}

    def answered(self, target: Target | None, verb: str, dry_run: bool, code: int, seconds: float) -> None:
        """A watch counts as a request when it ends; its length is no latency."""
        labels = (verb.upper(), "All" if dry_run else "", *_labels(target), "apiserver")
        self.requests.labels(*labels, str(code)).inc()
        if verb not in ("watch", "connect"):
            self.seconds.labels(*labels).observe(seconds)

    def watching(self, target: Target) -> Callable[[], None]:
        """A watch begins; call what is returned when it ends."""
        labels = _labels(target)
        found = self._open.get(labels)
        if found is None:
            requests = self.requests.labels("WATCH", "", *labels, "apiserver", "200")
            found = self._open[labels] = OpenWatches(self.long_running.labels("WATCH", *labels, "apiserver"), requests)
        found.begin()
        return found.end


class OpenWatches:
    """Those of one resource and scope; a watch counts as a request when it ends."""

    def __init__(self, running: Gauge, requests: Counter) -> None:
        self._running, self._requests = running, requests

    def begin(self) -> None:
        self._running.inc()

    def end(self) -> None:
        self._running.dec()
        self._requests.inc()


class WatchMeter(Meter):
    def __init__(self, metrics: Metrics, resource: Resource) -> None:
        self._sent = metrics.watch_events.labels(resource.group, resource.version, resource.plural)
        self._slow = metrics.terminated.labels(resource.group, resource.plural)

    def sent(self, watches: int, size: int) -> None:
        if watches:
            self._sent.inc(watches)

    def replayed(self, events: int, size: int) -> None:
        self._sent.inc(events)

    def slow(self) -> None:
        self._slow.inc()


def _labels(target: Target | None) -> tuple[str, str, str, str, str]:
    if target is None:
        return "", "", "", "", ""
    row = target.resource
    scope = "resource" if target.name else "namespace" if target.namespace else "cluster"
    return row.group, row.version, row.plural, target.subresource, scope


class ReplicaCollector(Collector):
    """How long ago each replica last moved, and where it stands."""

    def __init__(self, replicas: Callable[[], Iterable[tuple[str, str, int, float, bool, int]]]) -> None:
        self._replicas = replicas

    def collect(self) -> Iterable[Metric]:
        labels = ["group", "resource"]
        lag = GaugeMetricFamily("nodeplane_replica_lag", "Seconds since the replica moved.", labels=labels)
        position = GaugeMetricFamily("nodeplane_replica_revision", "Revision applied.", labels=labels)
        synced = GaugeMetricFamily("nodeplane_replica_synced", "1: following its owner.", labels=labels)
        objects = GaugeMetricFamily("apiserver_resource_objects", "Objects held.", labels=labels)
        now = time.monotonic()
        for group, resource, mark, moved_at, is_synced, count in self._replicas():
            lag.add_metric([group, resource], now - moved_at)
            position.add_metric([group, resource], mark)
            synced.add_metric([group, resource], float(is_synced))
            objects.add_metric([group, resource], count)
        return [lag, position, synced, objects]

    def describe(self) -> Iterable[Metric]:
        return []
