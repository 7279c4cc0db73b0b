"""Upstream's metrics of PLEG and of KEP-3386, under their exact names."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from actors.pleg.shell.mode_selector import ModeSelector
from actors.pleg.state_machine.cri_status import sane_stamp
from actors.pleg.state_machine.missed_events import QUEUE_DROP, RUNTIME, STREAM_DOWN, LostEvents, MissedEvents
from actors.pleg.state_machine.status_merger import StatusMerger
from protocols.actor.metrics import DEFAULT_BUCKETS, PlainCounter

FINE = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)


@dataclass(frozen=True)
class MetricsOptions:
    registry: CollectorRegistry
    merger: StatusMerger
    mode: ModeSelector
    missed: MissedEvents
    lost: LostEvents
    gate: bool
    """Feature gate EventedPLEG; without it upstream has no metrics of events."""


class PlegMetrics:
    def __init__(self, options: MetricsOptions) -> None:
        registry = options.registry
        events = registry if options.gate else None
        registry.register(_StateCollector(options))
        self._last = 0.0
        self._relist = _histogram("kubelet_pleg_relist_duration_seconds", "Full relists.", registry)
        self._interval = _histogram(
            "kubelet_pleg_relist_interval_seconds", "Time between starts of full relists.", registry
        )
        self._pod = _histogram("kubelet_pleg_pod_relist_duration_seconds", "Inspections of single pods.", registry)
        self.discarded = PlainCounter(
            "kubelet_pleg_discard_events", "Lifecycle events that could not be delivered.", registry=registry
        )
        self._ages = _histogram(
            "kubelet_evented_pleg_connection_latency_seconds", "Age of events when received.", events
        )
        self._fine_ages = Histogram(
            "nodeplane_event_latency_seconds", "As above, finer.", buckets=FINE, registry=events
        )
        self.undecodable = Counter(
            "nodeplane_pleg_undecodable_events", "Events of the runtime that are not CRI v1.", registry=events
        )
        self._received = PlainCounter("evented_pleg_notifications_received", "Events received.", registry=events)

    def received(self, created_ns: int, received_ns: int) -> None:
        """Count an event and, if its timestamp is sane, observe its age."""
        self._received.inc()
        if created := sane_stamp(created_ns, received_ns):
            age = (received_ns - created) / 1e9
            self._ages.observe(age)
            self._fine_ages.observe(age)

    def relisted(self, seconds: float) -> None:
        now = time.monotonic()
        self._relist.observe(seconds)
        if self._last:
            self._interval.observe(now - seconds - self._last)
        self._last = now - seconds

    def inspected(self, seconds: float) -> None:
        self._pod.observe(seconds)


def _histogram(name: str, help: str, registry: CollectorRegistry | None) -> Histogram:
    return Histogram(name, help, buckets=DEFAULT_BUCKETS, registry=registry)


class _StateCollector(Collector):
    """Gauges computed from current state at scrape time."""

    def __init__(self, options: MetricsOptions) -> None:
        self._merger = options.merger
        self._mode = options.mode
        self._missed = options.missed
        self._lost = options.lost
        self._gate = options.gate

    def collect(self) -> Iterable[Metric]:
        entries = [entry.status for entry in self._merger.cache.entries.values()]
        running = sum(any(sandbox.ready for sandbox in status.sandboxes) for status in entries)
        yield GaugeMetricFamily("kubelet_running_pods", "Pods with a ready sandbox.", value=running)
        containers = GaugeMetricFamily("kubelet_running_containers", "Containers.", labels=["container_state"])
        for state in ("created", "running", "exited", "unknown"):
            count = sum(item.state == state for status in entries for item in status.containers)
            containers.add_metric([state], count)
        yield containers
        started = self._mode.last_started
        seen = time.time() - (time.monotonic() - started) if started else 0.0
        yield GaugeMetricFamily("kubelet_pleg_last_seen_seconds", "Start of the last good relist.", value=seen)
        limit = GaugeMetricFamily(
            "nodeplane_pleg_limit_seconds", "Age of the last relist beyond which the node is not ready."
        )
        limit.add_metric([], self._mode.plan.limit_s)
        yield limit
        if self._gate:
            yield self._missed_events()
            yield CounterMetricFamily(
                "nodeplane_pleg_lost_events",
                "Events the runtime emitted that never arrived, by their numbers (embedded runtime).",
                value=self._lost.count,
            )
        yield CounterMetricFamily(
            "nodeplane_pleg_stale_events", "Events older than what was known.", value=self._merger.stale_events
        )

    def _missed_events(self) -> Metric:
        counter = PlainCounter(
            "kube_pod_missed_events", "Transitions found by inspection without an event.", ["cause", "transition"]
        )
        self._missed.settle(time.time_ns())
        for cause, transition in product((RUNTIME, STREAM_DOWN, QUEUE_DROP), ("started", "stopped", "deleted")):
            counter.labels(cause, transition).inc(self._missed.counts[(cause, transition)])
        return next(iter(counter.collect()))
