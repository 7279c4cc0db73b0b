"""Requests: how many, of which kind, how long they took, how large the answers were, how many are under way."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType

from prometheus_client import CollectorRegistry, Gauge, Histogram

from actors.apiserver.api.counters import Count, Tally, WeightedChild, WeightedHistogram
from actors.apiserver.api.target import Target
from actors.apiserver.storage.metrics import SECONDS

SIZES = (1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9)
WHERE = ("group", "version", "resource", "subresource", "scope", "component")
APPLY = "application/apply-patch+yaml"
READS = ("GET", "HEAD")
VERBS = {"create": "POST", "update": "PUT", "head": "GET"}
"""As they are counted; the others are themselves in capitals."""
Place = tuple[str, str, str, str, str, str]


class RequestMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        asked = ("verb", "dry_run", *WHERE)
        self._total = Tally("apiserver_request", "Requests answered.", (*asked, "code"), registry)
        seconds = "apiserver_request_duration_seconds"
        self._kinds: dict[tuple[Place, str, bool, int], tuple[Count, WeightedChild | None]] = {}
        """Where answers that differ in nothing but their time are counted."""
        self._seconds = WeightedHistogram(seconds, "Time to answer.", asked, SECONDS, registry)
        sizes = "apiserver_response_sizes"
        self._sizes = Histogram(sizes, "Bytes of answers.", ("verb", *WHERE), buckets=SIZES, registry=registry)
        running = "apiserver_longrunning_requests"
        self._running = Gauge(running, "Watches and streams that are open.", ("verb", *WHERE), registry=registry)
        inflight = "apiserver_current_inflight_requests"
        under_way = Gauge(inflight, "Requests under way.", ("request_kind",), registry=registry)
        self._reading, self._changing = _Count(), _Count()
        under_way.labels("readOnly").set_function(self._reading.value)
        under_way.labels("mutating").set_function(self._changing.value)

    def answered(self, place: Place, verb: str, dry_run: bool, code: int, seconds: float) -> None:
        """`verb` as in counted_verb. What is long-running has no latency."""
        kind = place, verb, dry_run, code
        found = self._kinds.get(kind)
        if found is None:
            found = self._kinds[kind] = self._kind(*kind)
        found[0].inc()
        if found[1] is not None:
            found[1].observe(seconds)

    def _kind(self, place: Place, verb: str, dry_run: bool, code: int) -> tuple[Count, WeightedChild | None]:
        labels = (verb, "All" if dry_run else "", *place)
        timed = verb not in ("WATCH", "CONNECT")
        return self._total.of(*labels, str(code)), self._seconds.labels(*labels) if timed else None

    def answered_bytes(self, place: Place, verb: str, size: int) -> None:
        self._sizes.labels(verb, *place).observe(size)

    def under_way(self, method: str) -> "_Count":
        """Counts as long as it is entered."""
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
    if verb == "patch" and headers.get("Content-Type", "").strip().lower().startswith(APPLY):
        return "APPLY"
    return VERBS.get(verb) or verb.upper()


def place_of(target: Target | None) -> Place:
    if target is None:
        return "", "", "", "", "", "apiserver"
    row = target.resource
    scope = "resource" if target.name else "namespace" if target.namespace else "cluster"
    return row.group, row.version, row.plural, target.subresource, scope, "apiserver"
