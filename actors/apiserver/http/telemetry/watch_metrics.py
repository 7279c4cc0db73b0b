"""Watches: how many are open, what they were sent, which were ended or refused."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from actors.apiserver.api.counters import Count, WeightedHistogram
from actors.apiserver.api.resource import Resource
from actors.apiserver.api.target import Target
from actors.apiserver.http.telemetry.request_metrics import Place, RequestMetrics, place_of
from actors.apiserver.watch.watcher import Meter

SIZES = tuple(1024.0 * 2**power for power in range(8))
BEGINNINGS = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 15, 20, 30, 45, 60)
KIND = ("group", "resource")
ROW = ("group", "version", "resource")


class WatchMetrics:
    def __init__(self, registry: CollectorRegistry, requests: RequestMetrics) -> None:
        self._requests = requests
        self._open: dict[Place, OpenWatches] = {}
        self.events = Counter("apiserver_watch_events", "Events queued to clients.", ROW, registry=registry)
        self.sizes = WeightedHistogram("apiserver_watch_events_sizes", "Bytes of events.", ROW, SIZES, registry)
        self.replayed = Counter("apiserver_init_events", "Events at the beginning of watches.", KIND, registry=registry)
        self.slow = Counter("apiserver_terminated_watchers", "Watches ended for slowness.", KIND, registry=registry)
        self.expired = Counter("nodeplane_watch_expired", "Watches refused as too old.", KIND, registry=registry)
        last = "nodeplane_shutdown_bookmarks"
        self.last = Counter(last, "Bookmarks of a leaving process.", (*KIND, "result"), registry=registry)
        self._beginnings = Histogram(
            "apiserver_watch_list_duration_seconds",
            "Time to the bookmark that ends the initial events.",
            (*ROW, "scope"),
            buckets=BEGINNINGS,
            registry=registry,
        )

    def began(self, target: Target) -> Callable[[], None]:
        """A watch begins; call what is returned when it ends."""
        place = place_of(target)
        found = self._open.get(place)
        if found is None:
            running = self._requests.running("WATCH", place)
            found = self._open[place] = OpenWatches(running, self._requests.total("WATCH", place, 200))
        found.begin()
        return found.end

    def listed(self, target: Target, seconds: float) -> None:
        """All initial events of a watch that asked for them are written."""
        group, version, resource, _, scope, _ = place_of(target)
        self._beginnings.labels(group, version, resource, scope).observe(seconds)


class OpenWatches:
    """Those of one resource and scope; a watch counts as a request when it ends."""

    def __init__(self, running: Gauge, requests: Count) -> None:
        self._running, self._requests = running, requests

    def begin(self) -> None:
        self._running.inc()

    def end(self) -> None:
        self._running.dec()
        self._requests.inc()


class WatchMeter(Meter):
    """Metrics of the watches of one resource."""

    def __init__(self, metrics: WatchMetrics, resource: Resource) -> None:
        row = (resource.group, resource.version, resource.plural)
        kind = (resource.group, resource.plural)
        self._events, self._sizes = metrics.events.labels(*row), metrics.sizes.labels(*row)
        self._replayed, self._slow = metrics.replayed.labels(*kind), metrics.slow.labels(*kind)
        self._expired = metrics.expired.labels(*kind)
        self._last = {sent: metrics.last.labels(*kind, "sent" if sent else "waiting") for sent in (True, False)}

    def sent(self, watches: int, size: int) -> None:
        if watches:
            self._events.inc(watches)
            self._sizes.observe(size, watches)

    def replayed(self, events: int, size: int) -> None:
        if events:
            self._replayed.inc(events)
            self._events.inc(events)
            self._sizes.observe(size / events, events)

    def slow(self) -> None:
        self._slow.inc()

    def expired(self) -> None:
        self._expired.inc()

    def last_bookmark(self, sent: bool) -> None:
        self._last[sent].inc()
