"""Metrics of dynamic resource allocation on the node, under upstream's names."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from protocols.actor.metrics import labelled
from protocols.process.families import CounterFamily, GaugeFamily, HistogramFamily

BUCKETS = tuple(round(0.1 * (40 / 0.1) ** (step / 14), 6) for step in range(15))
"""15 exponential buckets from 0.1 to 40 seconds."""


OPERATIONS = HistogramFamily(
    "dra_operations_duration_seconds",
    "Seconds to prepare or to unprepare all claims of a pod.",
    ("operation_name", "is_error"),
)
CALLS = HistogramFamily(
    "dra_grpc_operations_duration_seconds",
    "Seconds that calls of DRA drivers took.",
    ("driver_name", "method_name", "grpc_status_code"),
)
MESSAGES = CounterFamily(
    "nodeplane_dra_health_messages_total", "Messages of the health streams of DRA drivers.", ("driver_name",)
)
IN_USE = GaugeFamily(
    "dra_resource_claims_in_use", "Prepared claims by driver; driver_name `<any>` counts all.", ("driver_name",)
)


class DraMetrics:
    """Counts operations of pods, gRPC calls to drivers and health messages. `in_use`: claims by driver."""

    def __init__(self, registry: CollectorRegistry, in_use: Callable[[], Mapping[str, int]]) -> None:
        self._operations = Histogram(*OPERATIONS, buckets=BUCKETS, registry=registry)
        self._calls = Histogram(*CALLS, buckets=BUCKETS, registry=registry)
        self.messages = Counter(*MESSAGES, registry=registry)
        registry.register(InUse(in_use))

    @contextmanager
    def operation(self, name: str) -> Iterator[None]:
        """Measure PrepareResources or UnprepareResources of one pod."""
        begin, failed = time.perf_counter(), "true"
        try:
            yield
            failed = "false"
        finally:
            self._operations.labels(name, failed).observe(time.perf_counter() - begin)

    def call(self, driver: str, method: str, code: str, seconds: float) -> None:
        self._calls.labels(driver, method, code).observe(seconds)


class InUse(Collector):
    """Collects dra_resource_claims_in_use."""

    def __init__(self, count: Callable[[], Mapping[str, int]]) -> None:
        self._count = count

    def collect(self) -> Iterable[Metric]:
        metric = labelled(IN_USE)
        for driver, count in sorted(self._count().items()):
            metric.add_metric([driver], count)
        yield metric
