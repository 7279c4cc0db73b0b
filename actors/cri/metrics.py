"""Upstream's runtime metrics, by operation."""

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram

BUCKETS = tuple(0.005 * 2.5**i for i in range(14))


@dataclass(frozen=True)
class CriMetrics:
    operations: Counter
    errors: Counter
    durations: Histogram
    connection_errors: Counter
    connection_success: Counter


def cri_metrics(registry: CollectorRegistry) -> CriMetrics:
    """Registers kubelet_runtime_operations_*; the evented connection counters are exposed by pleg's names."""
    kind = ["operation_type"]
    return CriMetrics(
        operations=Counter("kubelet_runtime_operations", "Runtime operations.", kind, registry=registry),
        errors=Counter("kubelet_runtime_operations_errors", "Failed runtime operations.", kind, registry=registry),
        durations=Histogram(
            "kubelet_runtime_operations_duration_seconds",
            "Duration of runtime operations.",
            kind,
            buckets=BUCKETS,
            registry=registry,
        ),
        connection_errors=Counter("nodeplane_cri_stream_errors", "Event stream failures.", registry=registry),
        connection_success=Counter("nodeplane_cri_stream_opened", "Event streams opened.", registry=registry),
    )
