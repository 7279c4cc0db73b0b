"""Metrics of resource claims, under upstream's names."""

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from protocols.actor.metrics import labelled
from protocols.dra.pods import CLAIM_NAME, EXTENDED_CLAIM, allocation_of
from protocols.kinds import views
from protocols.kube.meta import annotations_of
from protocols.process.families import CounterFamily, GaugeFamily

CREATES = CounterFamily(
    "resourceclaim_controller_creates_total",
    "Attempts to create claims from templates; status is success or failure.",
    ("status",),
)
CLAIMS = GaugeFamily(
    "resourceclaim_controller_resource_claims",
    "Existing claims, by what made them and by allocation.",
    ("allocated", "source"),
)
DEPTH = GaugeFamily(
    "workqueue_depth", "Pods and claims that wait for a worker of the claim controller, resource_claim.", ("name",)
)


class ClaimMetrics(Collector):
    """Collector of claims by state and source, computed from the informer's objects."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._creates = Counter(*CREATES, registry=registry)
        self.claims: Mapping[str, views.ResourceClaim] = {}
        self.waiting: Callable[[], int] = lambda: 0
        registry.register(self)

    def created(self, status: str) -> None:
        self._creates.labels(status).inc()

    def collect(self) -> Iterable[Metric]:
        claims = labelled(CLAIMS)
        counts: dict[tuple[str, str], int] = {}
        for claim in self.claims.values():
            labels = "true" if allocation_of(claim) is not None else "false", _source(claim)
            counts[labels] = counts.get(labels, 0) + 1
        for labels, count in counts.items():
            claims.add_metric(list(labels), count)
        yield claims
        depth = labelled(DEPTH)
        depth.add_metric(["resource_claim"], self.waiting())
        yield depth


def _source(claim: views.ResourceClaim) -> str:
    annotations = annotations_of(claim)
    if CLAIM_NAME in annotations:
        return "resource_claim_template"
    return "extended_resource" if EXTENDED_CLAIM in annotations else ""
