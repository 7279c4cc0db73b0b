"""Upstream's runtime metrics, by operation."""

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram

from protocols.actor.metrics import PlainCounter

BUCKETS = tuple(0.005 * 2.5**i for i in range(14))


@dataclass(frozen=True)
class CriMetrics:
    operations: Counter
    errors: Counter
    durations: Histogram
    connection_errors: PlainCounter
    connection_success: PlainCounter


def cri_metrics(registry: CollectorRegistry, gate: bool) -> CriMetrics:
    """Registers kubelet_runtime_operations_* and the two counters of the event stream's connection."""
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
        connection_errors=PlainCounter(
            "kubelet_evented_pleg_connection_error_count",
            "Failures to open or to read the event stream.",
            registry=registry if gate else None,
        ),
        connection_success=PlainCounter(
            "kubelet_evented_pleg_connection_success_count",
            "Event streams opened.",
            registry=registry if gate else None,
        ),
    )
