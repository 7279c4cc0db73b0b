"""How long pods take, under upstream's names."""

from prometheus_client import CollectorRegistry, Histogram

START_BUCKETS = (0.1, 0.25, 0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 600, 1800, 3600)
WORK_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Meter:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.start = Histogram(
            "kubelet_pod_start_duration_seconds",
            "From the moment the node first saw a pod to its status Running.",
            buckets=START_BUCKETS,
            registry=registry,
        )
        self.worker_start = Histogram(
            "kubelet_pod_worker_start_duration_seconds",
            "From the moment the node first saw a pod to its first sync.",
            buckets=WORK_BUCKETS,
            registry=registry,
        )
        self.work = Histogram(
            "kubelet_pod_worker_duration_seconds",
            "One look at a pod and what it led to. operation_type: create, update, sync, terminating or terminated.",
            ["operation_type"],
            buckets=WORK_BUCKETS,
            registry=registry,
        )
