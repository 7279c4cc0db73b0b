"""Counters by labels that are counted up with every request: a count is an addition, and no lock is taken for it."""

from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector


class Tally(Collector):
    """Shown as `name`_total."""

    def __init__(self, name: str, help: str, labels: Sequence[str], registry: CollectorRegistry) -> None:
        self._name, self._help, self._labels = name, help, tuple(labels)
        self._counts: dict[tuple[str, ...], Count] = {}
        registry.register(self)

    def of(self, *values: str) -> "Count":
        """The count of these label values, in the order of the names."""
        found = self._counts.get(values)
        if found is None:
            if len(values) != len(self._labels):
                raise ValueError(f"{self._name} has labels {self._labels}, got {values}")
            found = self._counts[values] = Count()
        return found

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily(self._name, self._help, labels=self._labels)
        for values, count in self._counts.items():
            family.add_metric(values, count.value)
        yield family

    def describe(self) -> Iterable[Metric]:
        return [CounterMetricFamily(self._name, self._help, labels=self._labels)]


class Count:
    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, amount: float = 1.0) -> None:
        self.value += amount
