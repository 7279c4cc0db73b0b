"""Figures of evictions, under upstream's names."""

from prometheus_client import CollectorRegistry, Counter, Histogram

BUCKETS = (0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240)


class EvictionMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._deletions = Counter(
            "device_taint_eviction_controller_pod_deletions_total",
            "Pods deleted because a device of theirs was tainted",
            registry=registry,
        )
        self._latency = Histogram(
            "device_taint_eviction_controller_pod_deletion_duration_seconds",
            "From the moment that a taint's toleration ends to the pod's deletion",
            buckets=BUCKETS,
            registry=registry,
        )

    def deleted(self, seconds: float) -> None:
        self._deletions.inc()
        self._latency.observe(seconds)
