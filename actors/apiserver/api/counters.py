"""Metrics for hot paths: histograms that take many equal observations at once, and plain counters.

An event that is sent to a thousand clients is one observation here. The library's counters instead, with their labels
looked up each time: 3 to 9 % of the API server's CPU for a write.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString


class WeightedHistogram(Collector):
    """A histogram whose children, returned by `labels`, take weighted observations.

    A child without any is not exported: most resources of a plane never have one.
    """

    def __init__(
        self, name: str, help: str, labels: Sequence[str], buckets: Sequence[float], registry: CollectorRegistry
    ) -> None:
        self._name, self._help = name, help
        self._labels = tuple(labels)
        self._bounds = (*buckets, float("inf"))
        self._children: dict[tuple[str, ...], WeightedChild] = {}
        registry.register(self)

    def labels(self, *values: str) -> "WeightedChild":
        if len(values) != len(self._labels):
            raise ValueError(f"{self._name} has labels {self._labels}, got {values}")
        child = self._children.get(values)
        if child is None:
            child = self._children[values] = WeightedChild(self._bounds)
        return child

    def collect(self) -> Iterable[Metric]:
        family = HistogramMetricFamily(self._name, self._help, labels=self._labels)
        for values, child in self._children.items():
            if child.observed:
                family.add_metric(values, child.cumulated(), child.sum)
        yield family

    def describe(self) -> Iterable[Metric]:
        return [HistogramMetricFamily(self._name, self._help, labels=self._labels)]


class WeightedChild:
    """A histogram of one set of label values, whose observations have a weight."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0.0] * len(bounds)
        self.sum = 0.0

    @property
    def observed(self) -> bool:
        return any(self._counts)

    def observe(self, value: float, times: float = 1) -> None:
        self._counts[bisect_left(self._bounds, value)] += times
        self.sum += value * times

    def cumulated(self) -> list[tuple[str, float]]:
        total, buckets = 0.0, []
        for bound, count in zip(self._bounds, self._counts, strict=True):
            total += count
            name: str = floatToGoString(bound)  # type: ignore[no-untyped-call]  # the library leaves it untyped
            buckets.append((name, total))
        return buckets


class Tally(Collector):
    """A counter, exported as `name`_total, whose children are returned by `of`.

    A child that has not counted is not exported: most resources of a plane never have one that has.
    """

    def __init__(self, name: str, help: str, labels: Sequence[str], registry: CollectorRegistry) -> None:
        self._name, self._help, self._labels = name, help, tuple(labels)
        self._counts: dict[tuple[str, ...], Count] = {}
        registry.register(self)

    def of(self, *values: str) -> "Count":
        """Return the child of these label values, in the order of the label names."""
        count = self._counts.get(values)
        if count is None:
            if len(values) != len(self._labels):
                raise ValueError(f"{self._name} has labels {self._labels}, got {values}")
            count = self._counts[values] = Count()
        return count

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily(self._name, self._help, labels=self._labels)
        for values, count in self._counts.items():
            if count.value:
                family.add_metric(values, count.value)
        yield family

    def describe(self) -> Iterable[Metric]:
        return [CounterMetricFamily(self._name, self._help, labels=self._labels)]


class Count:
    """A counter of one set of label values."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, amount: float = 1.0) -> None:
        self.value += amount
