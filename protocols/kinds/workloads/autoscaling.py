"""HorizontalPodAutoscalers, stored for kube-controller-manager: defaults, validation, columns."""

from msgspec.structs import asdict

from protocols.kinds import table as kinds
from protocols.kinds.check.causes import invalid
from protocols.kinds.check.table import Causes, Ordered, Struct, at_least, each, together
from protocols.kinds.served.columns import AGE, NAME
from protocols.kinds.served.row import STATUS_VERBS, Column, Served, Subresource
from protocols.kinds.served.strategy import Strategy
from protocols.kinds.workloads.metrics import metric, reference
from protocols.kube.meta import Object
from protocols.kube.objects import at

CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
"""The metric of an autoscaler that names none."""


def _range(path: str, spec: Object, causes: Causes) -> None:
    most = spec.get("maxReplicas") or 0
    if most < spec["minReplicas"]:
        causes.append(invalid(f"{path}.maxReplicas", most, "must be greater than or equal to `minReplicas`"))


class _AutoscalerStrategy(Strategy):
    has_status = True
    rules = Struct(
        spec=together(
            Ordered(
                "maxReplicas=0 scaleTargetRef={}",
                minReplicas=at_least(1),
                maxReplicas=at_least(1, "must be greater than 0"),
                scaleTargetRef=reference,
                metrics=each(metric),
            ),
            _range,
        )
    )

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        if spec.get("minReplicas") is None:
            spec["minReplicas"] = 1
        if not spec.get("metrics"):
            spec["metrics"] = [CPU]

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {}


def _reference(obj: Object) -> str:
    target = at(obj, "spec", "scaleTargetRef") or {}
    return f"{target.get('kind') or ''}/{target.get('name') or ''}"


def _number(*path: str) -> Column:
    titles = {"minReplicas": "MinPods", "maxReplicas": "MaxPods", "currentReplicas": "Replicas"}
    return Column(titles[path[-1]], lambda obj: at(obj, *path) or 0, type="integer")


AUTOSCALERS = Served(
    **asdict(kinds.HORIZONTALPODAUTOSCALERS),
    strategy=_AutoscalerStrategy(),
    columns=(
        NAME,
        Column("Reference", _reference),
        _number("spec", "minReplicas"),
        _number("spec", "maxReplicas"),
        _number("status", "currentReplicas"),
        AGE,
    ),
    subresources=(Subresource("status", STATUS_VERBS, "HorizontalPodAutoscaler", "autoscaling", "v2"),),
)
