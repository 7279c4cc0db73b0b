"""prober_probe_total: results of probes, under kubelet's name and labels."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from protocols.actor.metrics import labelled
from protocols.lifecycle.pods.types import PodSpec
from protocols.process.families import CounterFamily

PROBES = CounterFamily(
    "prober_probe_total",
    "Liveness, readiness and startup probes of containers; result is successful, failed or unknown.",
    ("probe_type", "result", "container", "pod", "namespace", "pod_uid"),
)
RESULTS = {"success": "successful", "failure": "failed", "unknown": "unknown"}
"""kubelet's word by the value of Outcome."""


class ProbeMetrics(Collector):
    """Bounded by the pods that are probed: call `forget` when a pod's probes end."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[tuple[str, ...]]] = {}

    def observe(self, spec: PodSpec, container: str, kind: str, outcome: str) -> None:
        labels = (kind, RESULTS[outcome], container, spec.name, spec.namespace, spec.uid)
        self._counts.setdefault(spec.uid, Counter())[labels] += 1

    def forget(self, uid: str) -> None:
        self._counts.pop(uid, None)

    def collect(self) -> Iterator[Metric]:
        total = labelled(PROBES)
        for counts in list(self._counts.values()):
            for labels, count in counts.items():
                total.add_metric(labels, count)
        yield total
