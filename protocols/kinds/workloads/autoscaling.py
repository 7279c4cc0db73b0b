"""HorizontalPodAutoscalers, stored for kube-controller-manager: defaults, validation, columns."""

from msgspec.structs import asdict

from protocols.kinds import table as kinds
from protocols.kinds.check.causes import Cause, invalid, required
from protocols.kinds.served.columns import AGE, NAME
from protocols.kinds.served.row import STATUS_VERBS, Column, Served, Subresource
from protocols.kinds.served.strategy import Strategy
from protocols.kube.meta import Object
from protocols.kube.names import path_segment_fault
from protocols.kube.objects import at

CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
"""The metric of an autoscaler that names none."""
POSITIVE = "must be greater than 0"


class _AutoscalerStrategy(Strategy):
    has_status = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        if spec.get("minReplicas") is None:
            spec["minReplicas"] = 1
        if not spec.get("metrics"):
            spec["metrics"] = [CPU]

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {}

    def validate_create(self, obj: Object) -> list[Cause]:
        spec = obj.get("spec") or {}
        least, most = spec.get("minReplicas") or 0, spec.get("maxReplicas") or 0
        causes = [] if least >= 1 else [invalid("spec.minReplicas", least, "must be greater than or equal to 1")]
        causes += [] if most >= 1 else [invalid("spec.maxReplicas", most, POSITIVE)]
        if most < least:
            causes.append(invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`"))
        for field in ("kind", "name"):
            path, value = f"spec.scaleTargetRef.{field}", at(spec, "scaleTargetRef", field) or ""
            if not value:
                causes.append(required(path))
            elif fault := path_segment_fault(value):
                causes.append(invalid(path, value, fault))
        return causes


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
