"""Metrics of dynamic resource allocation on the node, under upstream's names."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

BUCKETS = tuple(round(0.1 * (40 / 0.1) ** (step / 14), 6) for step in range(15))
"""15 exponential buckets from 0.1 to 40 seconds."""


class DraMetrics:
    def __init__(self, registry: CollectorRegistry, in_use: Callable[[], Mapping[str, int]]) -> None:
        self._operations = Histogram(
            "dra_operations_duration_seconds",
            "Latency histogram in seconds for the duration of handling all ResourceClaims referenced by a pod",
            ["operation_name", "is_error"],
            buckets=BUCKETS,
            registry=registry,
        )
        self._calls = Histogram(
            "dra_grpc_operations_duration_seconds",
            "Duration in seconds of the DRA gRPC operations",
            ["driver_name", "method_name", "grpc_status_code"],
            buckets=BUCKETS,
            registry=registry,
        )
        self.messages = Counter(
            "nodeplane_dra_health_messages",
            "Messages of health streams, by driver",
            ["driver_name"],
            registry=registry,
        )
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
        text = "The number of ResourceClaims that are currently in use on the node, by driver name"
        metric = GaugeMetricFamily("dra_resource_claims_in_use", text, labels=["driver_name"])
        for driver, count in sorted(self._count().items()):
            metric.add_metric([driver], count)
        yield metric

    def describe(self) -> Iterable[Metric]:
        return []
