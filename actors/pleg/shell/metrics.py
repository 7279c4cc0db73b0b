"""Upstream's metrics of PLEG and of KEP-3386, under their exact names."""

import time
from collections.abc import Iterable
from itertools import product

import msgspec
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from actors.pleg.shell.mode_selector import ModeSelector
from actors.pleg.state_machine.cri_status import sane_stamp
from actors.pleg.state_machine.missed_events import QUEUE_DROP, RUNTIME, STREAM_DOWN, LostEvents, MissedEvents
from actors.pleg.state_machine.status_merger import StatusMerger
from protocols.actor.metrics import DEFAULT_BUCKETS, PlainCounter, labelled, single
from protocols.process.families import CounterFamily, GaugeFamily, HistogramFamily

FINE = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)


RELIST = HistogramFamily("kubelet_pleg_relist_duration_seconds", "Seconds that a full relist took.")
INTERVAL = HistogramFamily("kubelet_pleg_relist_interval_seconds", "Seconds between the starts of full relists.")
INSPECTION = HistogramFamily("kubelet_pleg_pod_relist_duration_seconds", "Seconds that the inspection of a pod took.")
DISCARDED = CounterFamily("kubelet_pleg_discard_events", "Lifecycle events that were dropped.")
AGE = HistogramFamily(
    "kubelet_evented_pleg_connection_latency_seconds", "Age of the runtime's events when they were received."
)
FINE_AGE = HistogramFamily(
    "nodeplane_event_latency_seconds", "Age of the runtime's events when they were received, with finer buckets."
)
UNDECODABLE = CounterFamily(
    "nodeplane_pleg_undecodable_events_total",
    "Events of the runtime that are not CRI v1; the first is logged.",
)
RECEIVED = CounterFamily("evented_pleg_notifications_received", "Events of the runtime that were received.")
RUNNING_PODS = GaugeFamily("kubelet_running_pods", "Pods that have a ready sandbox.")
CONTAINERS = GaugeFamily("kubelet_running_containers", "Containers of the node by their state.", ("container_state",))
LAST_SEEN = GaugeFamily("kubelet_pleg_last_seen_seconds", "Unix time at which the last successful relist began.")
LIMIT = GaugeFamily(
    "nodeplane_pleg_limit_seconds",
    "Age of the last relist beyond which the node is not ready: 180, or 600 while events carry the status.",
)
MISSED = CounterFamily(
    "kube_pod_missed_events",
    "Transitions found by inspection without an event of the runtime.",
    ("cause", "transition"),
)
LOST = CounterFamily(
    "nodeplane_pleg_lost_events_total",
    "Events of the embedded runtime that never arrived, by their sequence numbers.",
)
STALE = CounterFamily("nodeplane_pleg_stale_events_total", "Events of the runtime older than the known state.")


class MetricsOptions(msgspec.Struct, frozen=True):
    """Sources of the metrics."""

    registry: CollectorRegistry
    merger: StatusMerger
    mode: ModeSelector
    missed: MissedEvents
    lost: LostEvents
    gate: bool
    """Feature gate EventedPLEG; without it upstream has no metrics of events."""


class PlegMetrics:
    """Histograms of relists and events; gauges are computed at scrape time."""

    def __init__(self, options: MetricsOptions) -> None:
        registry = options.registry
        events = registry if options.gate else None
        registry.register(_StateCollector(options))
        self._last = 0.0
        self._relist = Histogram(*RELIST, buckets=DEFAULT_BUCKETS, registry=registry)
        self._interval = Histogram(*INTERVAL, buckets=DEFAULT_BUCKETS, registry=registry)
        self._pod = Histogram(*INSPECTION, buckets=DEFAULT_BUCKETS, registry=registry)
        self.discarded = PlainCounter(*DISCARDED, registry)
        self._ages = Histogram(*AGE, buckets=DEFAULT_BUCKETS, registry=events)
        self._fine_ages = Histogram(*FINE_AGE, buckets=FINE, registry=events)
        self.undecodable = Counter(*UNDECODABLE, registry=events)
        self._received = PlainCounter(*RECEIVED, events)

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
        yield single(RUNNING_PODS, running)
        containers = labelled(CONTAINERS)
        for state in ("created", "running", "exited", "unknown"):
            count = sum(item.state == state for status in entries for item in status.containers)
            containers.add_metric([state], count)
        yield containers
        started = self._mode.last_started
        yield single(LAST_SEEN, time.time() - (time.monotonic() - started) if started else 0.0)
        yield single(LIMIT, self._mode.plan.limit_s)
        if self._gate:
            yield self._missed_events()
            yield single(LOST, self._lost.count)
        yield single(STALE, self._merger.stale_events)

    def _missed_events(self) -> Metric:
        counter = PlainCounter(*MISSED)
        for cause, transition in product((RUNTIME, STREAM_DOWN, QUEUE_DROP), ("started", "stopped", "deleted")):
            counter.labels(cause, transition).inc(self._missed.counts[(cause, transition)])
        return next(iter(counter.collect()))
