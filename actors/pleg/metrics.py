"""Upstream's PLEG metrics and those of KEP-3386, under their exact names."""

import time
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from actors.pleg.ledger import Ledger
from actors.pleg.relister import Relister
from protocols.actor.metrics import PlainCounter
from protocols.messages.cri import RuntimeState

LATENCY_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)


class PlegMetrics:
    def __init__(self, registry: CollectorRegistry, ledger: Ledger, relister: Relister) -> None:
        registry.register(_Views(ledger, relister))
        self._relist = Histogram("kubelet_pleg_relist_duration_seconds", "Full relists.", registry=registry)
        self._latency = Histogram(
            "kubelet_evented_pleg_connection_latency_seconds", "Age of events when received.", registry=registry
        )
        self._fine = Histogram(
            "nodeplane_event_latency_seconds", "As above, finer.", buckets=LATENCY_BUCKETS, registry=registry
        )
        self._received = PlainCounter("evented_pleg_notifications_received", "Events received.", registry=registry)
        self._errors = PlainCounter(
            "kubelet_evented_pleg_connection_error_count", "Event stream failures.", registry=registry
        )
        self._success = PlainCounter(
            "kubelet_evented_pleg_connection_success_count", "Event streams opened.", registry=registry
        )

    def received(self, created_ns: int, received_ns: int) -> None:
        age = max(0.0, (received_ns - created_ns) / 1e9)
        self._latency.observe(age)
        self._fine.observe(age)
        self._received.inc()

    def relisted(self, seconds: float) -> None:
        self._relist.observe(seconds)

    def stream(self, before: RuntimeState, after: RuntimeState) -> None:
        if after.failures > before.failures:
            self._errors.inc(after.failures - before.failures)
        if after.streaming and not before.streaming:
            self._success.inc()


class _Views(Collector):
    """Gauges computed when they are asked for: never kept by differences."""

    def __init__(self, ledger: Ledger, relister: Relister) -> None:
        self._ledger = ledger
        self._relister = relister

    def collect(self) -> Iterable[Metric]:
        entries = [entry.status for entry in self._ledger.cache.entries.values()]
        running = sum(any(sandbox.ready for sandbox in status.sandboxes) for status in entries)
        yield GaugeMetricFamily("kubelet_running_pods", "Pods with a ready sandbox.", value=running)
        containers = GaugeMetricFamily("kubelet_running_containers", "Containers.", labels=["container_state"])
        for state in ("created", "running", "exited", "unknown"):
            count = sum(item.state == state for status in entries for item in status.containers)
            containers.add_metric([state], count)
        yield containers
        seen = time.time() - (time.monotonic() - self._relister.last_started) if self._relister.last_started else 0.0
        yield GaugeMetricFamily("kubelet_pleg_last_seen_seconds", "Start of the last good relist.", value=seen)
        yield CounterMetricFamily(
            "nodeplane_pleg_stale_events", "Events older than what was known.", value=self._ledger.stale_events
        )
