"""Priority and fairness: what was dispatched, rejected, waits and executes, per priority level and flow schema."""

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from actors.apiserver.api.counters import Count, Tally, WeightedChild, WeightedHistogram
from protocols.actor.metrics import LabelledFamily, labelled
from protocols.process.families import CounterFamily, GaugeFamily, HistogramFamily

PREFIX = "apiserver_flowcontrol_"
LABELS = ("priority_level", "flow_schema")
WAITS = (0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30)


DISPATCHED = CounterFamily(f"{PREFIX}dispatched_requests_total", "Requests that started to execute.", LABELS)
REJECTED = CounterFamily(
    f"{PREFIX}rejected_requests_total",
    "Requests rejected with 429 or cancelled; reason is queue-full, time-out or cancelled.",
    (*LABELS, "reason"),
)
WAIT = HistogramFamily(
    f"{PREFIX}request_wait_duration_seconds", "Seconds that a request waited in a queue.", (*LABELS, "execute")
)
WAITING = GaugeFamily(f"{PREFIX}current_inqueue_requests", "Requests that wait in a queue.", LABELS)
EXECUTING = GaugeFamily(f"{PREFIX}current_executing_requests", "Requests that execute now.", LABELS)
SEATS = GaugeFamily(f"{PREFIX}current_executing_seats", "Seats that executing requests occupy.", LABELS)
NOMINAL = GaugeFamily(f"{PREFIX}nominal_limit_seats", "Seats that a level always has.", ("priority_level",))


class FlowCounts:
    """Counts of one flow schema. `queued`, `executing` and `seats` are gauges."""

    def __init__(
        self, labels: tuple[str, str], dispatched: Count, served: WeightedChild, turned_away: WeightedChild
    ) -> None:
        self.labels, self.dispatched = labels, dispatched
        self.served, self.turned_away = served, turned_away
        self.queued = self.executing = self.seats = 0

    def began(self, width: int, waited: float) -> None:
        self.dispatched.inc()
        self.executing += 1
        self.seats += width
        self.served.observe(waited)

    def ended(self, width: int) -> None:
        self.executing -= 1
        self.seats -= width


class FlowMetrics(Collector):
    """Metrics of all levels; most are counted by the schema's FlowCounts and computed at scrape time."""

    def __init__(self, registry: CollectorRegistry) -> None:
        registry.register(self)
        self._dispatched = Tally(*DISPATCHED, registry)
        self._rejected = Tally(*REJECTED, registry)
        self._waits = WeightedHistogram(*WAIT, WAITS, registry)
        self._counts: list[FlowCounts] = []
        self._nominal: Mapping[str, int] = {}

    def limits(self, nominal: Mapping[str, int]) -> None:
        """Publish the seats of each limited level."""
        self._nominal = nominal

    def counts(self, level: str, schema: str) -> FlowCounts:
        """Return the counts of one schema; called once for each."""
        labels = (level, schema)
        counts = FlowCounts(
            labels,
            self._dispatched.of(*labels),
            self._waits.labels(*labels, "true"),
            self._waits.labels(*labels, "false"),
        )
        self._counts.append(counts)
        return counts

    def rejected(self, counts: FlowCounts, reason: str, waited: float) -> None:
        self._rejected.of(*counts.labels, reason).inc()
        counts.turned_away.observe(waited)

    def collect(self) -> Iterable[Metric]:
        queued, executing, seats, nominal = self._families()
        for counts in self._counts:
            queued.add_metric(counts.labels, counts.queued)
            executing.add_metric(counts.labels, counts.executing)
            seats.add_metric(counts.labels, counts.seats)
        for level, limit in self._nominal.items():
            nominal.add_metric((level,), limit)
        return queued, executing, seats, nominal

    def describe(self) -> Iterable[Metric]:
        return self._families()

    @staticmethod
    def _families() -> tuple[LabelledFamily, LabelledFamily, LabelledFamily, LabelledFamily]:
        return labelled(WAITING), labelled(EXECUTING), labelled(SEATS), labelled(NOMINAL)
