"""How old events were when received, counted at two grains. Cheaper than a Histogram: this runs for every event."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate

from prometheus_client import Histogram
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

FINE = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, float("inf"))
UPSTREAM, OURS = "kubelet_evented_pleg_connection_latency_seconds", "nodeplane_event_latency_seconds"


class Buckets:
    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * len(bounds)

    def add(self, seconds: float) -> None:
        self._counts[bisect_left(self._bounds, seconds)] += 1

    def told(self) -> list[tuple[str, float]]:
        """Bound and how many were not above it."""
        names = [floatToGoString(bound) for bound in self._bounds]  # type: ignore[no-untyped-call]  # the library leaves it untyped
        return list(zip(names, accumulate(self._counts), strict=True))


class Ages(Collector):
    def __init__(self) -> None:
        self._upstream, self._fine = Buckets(Histogram.DEFAULT_BUCKETS), Buckets(FINE)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        self._upstream.add(seconds)
        self._fine.add(seconds)
        self._sum += seconds

    def collect(self) -> Iterable[Metric]:
        yield HistogramMetricFamily(UPSTREAM, "Age of events when received.", self._upstream.told(), self._sum)
        yield HistogramMetricFamily(OURS, "As above, finer.", self._fine.told(), self._sum)
