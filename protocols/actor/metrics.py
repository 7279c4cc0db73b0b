"""Metrics of a process: counters under upstream's exact names, and metrics of the bus."""

from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from protocols.bus import Bus
from protocols.process.families import TASK_FAILURES, CounterFamily, GaugeFamily
from protocols.process.tasks import FAILURES
from protocols.trace import SpanRecorder

disable_created_metrics()  # type: ignore[no-untyped-call]  # the library leaves it untyped; those series are none of upstream's

DEFAULT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Default of Go's client, which upstream's histograms have; the Python library's own has three more."""


LabelledFamily = CounterMetricFamily | GaugeMetricFamily

DROPPED = CounterFamily(
    "nodeplane_bus_dropped_total",
    "Messages that this process dropped; reason is garbage, unsent, late or refused.",
    ("reason",),
)
PUBLISHED = CounterFamily(
    "nodeplane_bus_published_total", "Events that this process published on a stream; absent while 0.", ("stream",)
)
SYNCED = GaugeFamily(
    "nodeplane_bus_synced", "1 while a followed stream is up to date with its owner, else 0.", ("owner", "stream")
)
SYNCS = CounterFamily("nodeplane_bus_syncs_total", "Syncs with an owner that this process began.", ("owner",))
SILENCE = GaugeFamily(
    "nodeplane_bus_silence_seconds",
    "Seconds since an owner last reported its position, of the stream that waits longest; a synced replica is no "
    "older than this.",
    ("owner",),
)
SPANS = CounterFamily("nodeplane_trace_spans_total", "Spans that this process recorded.")
SPANS_DROPPED = CounterFamily("nodeplane_trace_spans_dropped_total", "Recorded spans that made room for newer ones.")


def single(family: CounterFamily | GaugeFamily, value: float) -> Metric:
    """Return a family without labels with its one value."""
    metric = labelled(family)
    metric.add_metric([], value)
    return metric


def labelled(family: CounterFamily | GaugeFamily) -> LabelledFamily:
    """Return a family without samples; add them by `add_metric`."""
    make = CounterMetricFamily if isinstance(family, CounterFamily) else GaugeMetricFamily
    return make(family.name, family.help, labels=family.labels)


class _PlainType(str):
    """The word `counter`, which the text writer does not recognise: it would append `_total` to the name."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return other is self

    def __hash__(self) -> int:
        return super().__hash__()


_COUNTER = _PlainType("counter")


class PlainCounter(Collector):
    """A counter exposed under exactly `name`. With label names, count through `labels(...)`."""

    def __init__(
        self, name: str, help: str, labels: Sequence[str] = (), registry: CollectorRegistry | None = None
    ) -> None:
        self._name = name
        self._help = help
        self._labels = tuple(labels)
        self._values: dict[tuple[str, ...], float] = {} if labels else {(): 0.0}
        if registry is not None:
            registry.register(self)

    def labels(self, *values: object, **named: object) -> "_PlainChild":
        """Return the counter of one set of label values, given in the order of the names or by name."""
        given = tuple(str(value) for value in values) or tuple(str(named[name]) for name in self._labels)
        if len(given) != len(self._labels):
            raise ValueError(f"{self._name} has labels {self._labels}, got {given}")
        self._values.setdefault(given, 0.0)
        return _PlainChild(self, given)

    def inc(self, amount: float = 1.0) -> None:
        self.add((), amount)

    def add(self, values: tuple[str, ...], amount: float) -> None:
        if amount < 0:
            raise ValueError(f"{self._name} only goes up")
        self._values[values] = self._values.get(values, 0.0) + amount

    def collect(self) -> Iterable[Metric]:
        metric = Metric(self._name, self._help, "counter")
        metric.type = _COUNTER
        for values, count in self._values.items():
            metric.add_sample(self._name, dict(zip(self._labels, values, strict=True)), count)
        return [metric]

    def describe(self) -> Iterable[Metric]:
        return [Metric(self._name, self._help, "unknown")]


class _PlainChild:
    def __init__(self, counter: PlainCounter, values: tuple[str, ...]) -> None:
        self._counter = counter
        self._values = values

    def inc(self, amount: float = 1.0) -> None:
        self._counter.add(self._values, amount)


class BusCollector(Collector):
    """Metrics of the streams that this process owns and follows, and of dropped messages."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    def collect(self) -> Iterable[Metric]:
        yield self._dropped()
        published = labelled(PUBLISHED)
        for stream in self._bus.owned():
            if stream.seq:
                published.add_metric([stream.name], stream.seq)
        yield published
        synced = labelled(SYNCED)
        for following in self._bus.followed():
            synced.add_metric([following.owner, following.stream], float(following.synced))
        yield synced
        yield from self._by_owner()

    def _by_owner(self) -> Iterable[Metric]:
        """Return sums of streams: their owner reports the positions of all together."""
        syncs = labelled(SYNCS)
        silence = labelled(SILENCE)
        followed = self._bus.followed()
        for owner in sorted({following.owner for following in followed}):
            mine = [following for following in followed if following.owner == owner]
            syncs.add_metric([owner], sum(following.syncs for following in mine))
            silence.add_metric([owner], max(following.silence for following in mine))
        yield syncs
        yield silence

    def _dropped(self) -> Metric:
        dropped = labelled(DROPPED)
        for reason in ("garbage", "unsent", "late", "refused"):
            dropped.add_metric([reason], getattr(self._bus.counters, reason))
        return dropped


class SpanCollector(Collector):
    """Number of spans that this process recorded, and of those it no longer retains."""

    def __init__(self, recorder: SpanRecorder) -> None:
        self._recorder = recorder

    def collect(self) -> Iterable[Metric]:
        yield single(SPANS, self._recorder.recorded)
        yield single(SPANS_DROPPED, self._recorder.dropped)


class TaskCollector(Collector):
    """Number of tasks of this process that ended with an exception which nobody awaited."""

    def collect(self) -> Iterable[Metric]:
        failures = labelled(TASK_FAILURES)
        for kind, count in sorted(FAILURES.items()):
            failures.add_metric([kind], count)
        yield failures
