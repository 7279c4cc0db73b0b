"""Metrics of pods, under upstream's names."""

import time

from prometheus_client import CollectorRegistry, Counter, Histogram

from protocols.actor.metrics import DEFAULT_BUCKETS
from protocols.kinds import views
from protocols.lifecycle.pods.types import PodStage
from protocols.process.families import CounterFamily, HistogramFamily

MINUTES = (45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600)
START_BUCKETS = (0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, *MINUTES)
STATUS_BUCKETS = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 20, 30, 45, 60)
"""Upstream's buckets, as its dashboards expect them; other histograms have DEFAULT_BUCKETS."""

REASONS = (
    "UnexpectedAdmissionError",
    "TopologyAffinityError",
    "SMTAlignmentError",
    "SysctlForbidden",
    "PodOSSelectorNodeLabelDoesNotMatch",
    "PodOSNotSupported",
    "SupplementalGroupsPolicyNotSupported",
    "OutOfcpu",
    "OutOfmemory",
    "OutOfephemeral-storage",
    "OutOfpods",
)
"""Rejection reasons used as label values; all others are counted as "Other" to bound cardinality."""

HEALTH_BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300)
_KINDS = {PodStage.TERMINATING: "terminating", PodStage.TERMINATED: "terminated"}


START = HistogramFamily(
    "kubelet_pod_start_duration_seconds", "Seconds from the moment the node first saw a pod to its status Running."
)
WORKER_START = HistogramFamily(
    "kubelet_pod_worker_start_duration_seconds", "Seconds from the moment the node first saw a pod to its first sync."
)
WORK = HistogramFamily(
    "kubelet_pod_worker_duration_seconds",
    "Seconds of one sync of a pod; operation_type is create, update, sync, terminating or terminated.",
    ("operation_type",),
)
STATUS = HistogramFamily(
    "kubelet_pod_status_sync_duration_seconds", "Seconds from a changed pod status to the API's confirmation."
)
REJECTIONS = CounterFamily(
    "kubelet_admission_rejections_total",
    "Pods rejected at admission; reasons outside kubelet's list count as Other.",
    ("reason",),
)
HEALTH = HistogramFamily(
    "nodeplane_device_health_status_seconds",
    "Seconds from a report of a device's health to the API's confirmation of the pod's status.",
)


class PodMetrics:
    """Counts and times the work of all pods."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.start = Histogram(*START, buckets=START_BUCKETS, registry=registry)
        self.worker_start = Histogram(*WORKER_START, buckets=DEFAULT_BUCKETS, registry=registry)
        self.work = Histogram(*WORK, buckets=DEFAULT_BUCKETS, registry=registry)
        self.status = Histogram(*STATUS, buckets=STATUS_BUCKETS, registry=registry)
        self._rejections = Counter(*REJECTIONS, registry=registry)
        self.health = Histogram(*HEALTH, buckets=HEALTH_BUCKETS, registry=registry)

    def rejected(self, reason: str) -> None:
        self._rejections.labels(reason if reason in REASONS else "Other").inc()


class PodTimer:
    """Times the steps of one pod until it runs. `phase`: the phase at which this process saw it first."""

    def __init__(self, metrics: PodMetrics | None, phase: str) -> None:
        self._metrics = metrics
        self._seen = time.monotonic()
        self._syncs = 0
        self._fresh = phase in ("", "Pending")
        self._begun = 0.0
        self._updated = False
        self._rejected = False

    def updated(self) -> None:
        """The next sync is an update: the API had a newer object."""
        self._updated = True

    def rejected(self, reason: str) -> None:
        """Count a rejection, once per pod."""
        if self._metrics is not None and not self._rejected:
            self._rejected = True
            self._metrics.rejected(reason)

    def begin(self) -> None:
        self._begun = time.monotonic()
        if self._metrics is not None and self._syncs == 0 and self._fresh:
            self._metrics.worker_start.observe(self._begun - self._seen)

    def end(self, stage: PodStage, shown: views.PodStatus) -> None:
        """Record a sync that began in `stage`."""
        if self._metrics is None:
            return
        first = "create" if self._syncs == 0 and self._fresh else "update" if self._updated else "sync"
        self._metrics.work.labels(_KINDS.get(stage, first)).observe(time.monotonic() - self._begun)
        self._syncs += 1
        self._updated = False
        if self._fresh and shown.get("phase") not in (None, "Pending"):
            self._fresh = False
            self._metrics.start.observe(time.monotonic() - self._seen)
