"""Figures of the adopt mode."""

from prometheus_client import CollectorRegistry, Counter, Gauge


class AdoptMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.current = Gauge("nodeplane_adopt_kubelet_current", "1: kubelet answers", registry=registry)
        self.lists = Counter("nodeplane_adopt_lists_total", "Questions to kubelet", ["result"], registry=registry)
        self.events = Counter("nodeplane_adopt_container_events_total", "Events of the runtime", registry=registry)
        self.kept = Gauge(
            "nodeplane_adopt_pods_kept", "Pods that run but that kubelet does not list (yet)", registry=registry
        )
