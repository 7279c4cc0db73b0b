"""Metrics of requests and watches, under the names of kube-apiserver."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from actors.apiserver.api.counters import Count, Tally, WeightedChild, WeightedHistogram
from actors.apiserver.api.request.target import Target
from actors.apiserver.storage.metrics import SECONDS
from actors.apiserver.watch.watcher import Meter
from protocols.kinds.served.row import Served
from protocols.process.families import CounterFamily, GaugeFamily, HistogramFamily

RESPONSE_SIZES = (1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9)
WHERE = ("group", "version", "resource", "subresource", "scope", "component")
APPLY = "application/apply-patch+yaml"
READS = ("GET", "HEAD")
VERBS = {"create": "POST", "update": "PUT", "head": "GET"}
"""Values of the label `verb` that differ from the verb in capitals."""
Place = tuple[str, str, str, str, str, str]


ASKED = ("verb", "dry_run", *WHERE)
REQUESTS = CounterFamily("apiserver_request_total", "Requests that were answered.", (*ASKED, "code"))
REQUEST_SECONDS = HistogramFamily("apiserver_request_duration_seconds", "Seconds to answer a request.", ASKED)
RESPONSES = HistogramFamily("apiserver_response_sizes", "Bytes of a response.", ("verb", *WHERE))
LONG_RUNNING = GaugeFamily("apiserver_longrunning_requests", "Watches and streams that are open.", ("verb", *WHERE))
IN_FLIGHT = GaugeFamily(
    "apiserver_current_inflight_requests", "Requests in flight, without watches and streams.", ("request_kind",)
)


class RequestMetrics:
    """Counters of requests by resource, verb and code."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._total = Tally(*REQUESTS, registry)
        self._kinds: dict[tuple[Place, str, bool, int], tuple[Count, WeightedChild | None]] = {}
        """Children of the metrics by everything that labels a request, so that a repeated kind needs one lookup."""
        self._seconds = WeightedHistogram(*REQUEST_SECONDS, SECONDS, registry)
        self._sizes = Histogram(*RESPONSES, buckets=RESPONSE_SIZES, registry=registry)
        self._running = Gauge(*LONG_RUNNING, registry=registry)
        under_way = Gauge(*IN_FLIGHT, registry=registry)
        self._reading, self._changing = _Count(), _Count()
        under_way.labels("readOnly").set_function(self._reading.value)
        under_way.labels("mutating").set_function(self._changing.value)

    def answered(self, place: Place, verb: str, dry_run: bool, code: int, seconds: float) -> None:
        """Count a response; `verb` as in counted_verb. Long-running requests have no latency."""
        kind = place, verb, dry_run, code
        series = self._kinds.get(kind)
        if series is None:
            series = self._kinds[kind] = self._kind(*kind)
        series[0].inc()
        if series[1] is not None:
            series[1].observe(seconds)

    def _kind(self, place: Place, verb: str, dry_run: bool, code: int) -> tuple[Count, WeightedChild | None]:
        labels = (verb, "All" if dry_run else "", *place)
        timed = verb not in ("WATCH", "CONNECT")
        return self._total.of(*labels, str(code)), self._seconds.labels(*labels) if timed else None

    def answered_bytes(self, place: Place, verb: str, size: int) -> None:
        self._sizes.labels(verb, *place).observe(size)

    def under_way(self, method: str) -> "_Count":
        """Return the counter of requests in progress, to be entered for the time of the request."""
        return self._reading if method in READS else self._changing

    @contextmanager
    def connected(self, target: Target) -> Iterator[None]:
        with self._running.labels("CONNECT", *place_of(target)).track_inprogress():
            yield

    def running(self, verb: str, place: Place) -> Gauge:
        return self._running.labels(verb, *place)

    def total(self, verb: str, place: Place, code: int) -> Count:
        return self._total.of(verb, "", *place, str(code))


class _Count:
    """Number of requests inside the block now."""

    __slots__ = ("_now",)

    def __init__(self) -> None:
        self._now = 0

    def value(self) -> float:
        return float(self._now)

    def __enter__(self) -> None:
        self._now += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._now -= 1


def counted_verb(verb: str, headers: Mapping[str, str]) -> str:
    """Return the verb in metrics: APPLY is a PATCH of its own, others in upper case."""
    if verb == "patch" and headers.get("Content-Type", "").strip().lower().startswith(APPLY):
        return "APPLY"
    return VERBS.get(verb) or verb.upper()


def place_of(target: Target | None) -> Place:
    """Return the labels that name a target: group, version, resource, subresource, scope, component."""
    if target is None:
        return "", "", "", "", "", "apiserver"
    row = target.resource
    scope = "resource" if target.name else "namespace" if target.namespace else "cluster"
    return row.group, row.version, row.plural, target.subresource, scope, "apiserver"


EVENT_SIZES = tuple(1024.0 * 2**power for power in range(8))
BEGINNINGS = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 15, 20, 30, 45, 60)
KIND = ("group", "resource")
ROW = ("group", "version", "resource")


EVENTS = CounterFamily("apiserver_watch_events_total", "Events queued to the clients of watches.", ROW)
EVENT_BYTES = HistogramFamily("apiserver_watch_events_sizes", "Bytes of an event that is sent to watches.", ROW)
INITIAL_EVENTS = CounterFamily("apiserver_init_events_total", "Events with which watches began.", KIND)
TERMINATED = CounterFamily(
    "apiserver_terminated_watchers_total", "Watches ended because their client was too slow.", KIND
)
EXPIRED = CounterFamily("nodeplane_watch_expired_total", "Watches rejected since their revision was too old.", KIND)
LAST_BOOKMARKS = CounterFamily(
    "nodeplane_shutdown_bookmarks_total",
    "Bookmarks of a process that shuts down; result is sent, or waiting behind a client that does not read. The next "
    "process of the same name continues the count.",
    (*KIND, "result"),
)
WATCH_LISTS = HistogramFamily(
    "apiserver_watch_list_duration_seconds",
    "Seconds to the bookmark that ends a watch's initial events.",
    (*ROW, "scope"),
)


class WatchMetrics:
    """Counters of watches; open ones also count as long-running requests."""

    def __init__(self, registry: CollectorRegistry, requests: RequestMetrics) -> None:
        self._requests = requests
        self._open: dict[Place, OpenWatches] = {}
        self.events = Tally(*EVENTS, registry)
        self.sizes = WeightedHistogram(*EVENT_BYTES, EVENT_SIZES, registry)
        self.replayed = Tally(*INITIAL_EVENTS, registry)
        self.slow = Counter(*TERMINATED, registry=registry)
        self.expired = Counter(*EXPIRED, registry=registry)
        self.last = Counter(*LAST_BOOKMARKS, registry=registry)
        self._beginnings = Histogram(*WATCH_LISTS, buckets=BEGINNINGS, registry=registry)

    def began(self, target: Target) -> Callable[[], None]:
        """Count a watch. Returns a function to call when it ends."""
        place = place_of(target)
        watches = self._open.get(place)
        if watches is None:
            running = self._requests.running("WATCH", place)
            watches = self._open[place] = OpenWatches(running, self._requests.total("WATCH", place, 200))
        watches.begin()
        return watches.end

    def sending(self, target: Target) -> AbstractContextManager[object]:
        """Count a watch as open in this block, of a request that is counted when it ends."""
        return self._requests.running("WATCH", place_of(target)).track_inprogress()

    def listed(self, target: Target, seconds: float) -> None:
        """Observe the seconds until all initial events of a watch were written."""
        group, version, resource, _, scope, _ = place_of(target)
        self._beginnings.labels(group, version, resource, scope).observe(seconds)


class OpenWatches:
    """Open watches of one resource and scope; a watch counts as a request when it ends."""

    def __init__(self, running: Gauge, requests: Count) -> None:
        self._running, self._requests = running, requests

    def begin(self) -> None:
        self._running.inc()

    def end(self) -> None:
        self._running.dec()
        self._requests.inc()


class WatchMeter(Meter):
    """Metrics of the watches of one resource."""

    def __init__(self, metrics: WatchMetrics, resource: Served) -> None:
        row = (resource.group, resource.version, resource.plural)
        kind = (resource.group, resource.plural)
        self._events, self._sizes = metrics.events.of(*row), metrics.sizes.labels(*row)
        self._replayed, self._slow = metrics.replayed.of(*kind), metrics.slow.labels(*kind)
        self._expired = metrics.expired.labels(*kind)
        self._kind, self._last = kind, metrics.last

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
        self._last.labels(*self._kind, "sent" if sent else "waiting").inc()
