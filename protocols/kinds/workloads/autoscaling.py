"""HorizontalPodAutoscalers, stored for kube-controller-manager: defaults, validation, columns."""

from msgspec.structs import asdict

from protocols.kinds import table as kinds
from protocols.kinds.check.causes import Cause, invalid
from protocols.kinds.check.table import Causes, Check, Ordered, Struct, at_least, each, one_of, together
from protocols.kinds.served.columns import AGE, NAME, NONE, cell
from protocols.kinds.served.row import STATUS_VERBS, Column, Served, Subresource
from protocols.kinds.served.strategy import Strategy
from protocols.kinds.workloads.columns import number
from protocols.kinds.workloads.metrics import described_causes, metric, reference, version_causes
from protocols.kinds.workloads.rules import numbers
from protocols.kube.meta import Object
from protocols.kube.objects import at, fresh_copy, items, text
from protocols.kube.quantity import parse_quantity

CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
"""The metric of an autoscaler that names none."""

PODS = {"type": "Pods", "value": 4, "periodSeconds": 15}
PERCENT = {"type": "Percent", "value": 100, "periodSeconds": 15}
BEHAVIOR: dict[str, Object] = {
    "scaleUp": {"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [PODS, PERCENT]},
    "scaleDown": {"selectPolicy": "Max", "policies": [PERCENT]},
}
"""Defaults of a `behavior`, by direction."""
POSITIVE = "must be greater than zero"


def _up_to(most: int) -> Check:
    """Return a check of numbers not above `most`."""

    def check(path: str, value: int, causes: Causes) -> None:
        if value > most:
            causes.append(invalid(path, value, f"must be less than or equal to {most}"))

    return check


def _tolerance(path: str, value: str | int | float, causes: Causes) -> None:
    if parse_quantity(value).nanos < 0:
        causes.append(invalid(path, value, "must be greater than or equal to 0"))


_policy = Ordered(
    "type value=0 periodSeconds=0",
    type=one_of("Percent", "Pods", empty=True),
    value=at_least(1, POSITIVE),
    periodSeconds=together(at_least(1, POSITIVE), _up_to(1800)),
)
_rules = Ordered(
    stabilizationWindowSeconds=together(at_least(0, "must be greater than or equal to zero"), _up_to(3600)),
    selectPolicy=one_of("Disabled", "Max", "Min", empty=True),
    policies=each(_policy),
    tolerance=_tolerance,
)


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
                behavior=Ordered(scaleUp=_rules, scaleDown=_rules),
            ),
            _range,
        )
    )

    status_rules = Struct(status=Struct(fields=numbers("currentReplicas", "desiredReplicas")))

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        if spec.get("minReplicas") is None:
            spec["minReplicas"] = 1
        if not spec.get("metrics"):
            spec["metrics"] = [CPU]
        if (behavior := spec.get("behavior")) is not None:
            for direction, rules in BEHAVIOR.items():
                behavior[direction] = {**fresh_copy(rules), **(behavior.get(direction) or {})}

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {}

    def validate_create(self, obj: Object) -> list[Cause]:
        return self.validate_update(obj, {})

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        """Check the versions of references only where the stored ones are others, or valid."""
        target, before = (at(obj, "spec", "scaleTargetRef") or {} for obj in (new, old))
        causes = super().validate_create(new)
        if not before or any(target.get(field) != before.get(field) for field in ("kind", "apiVersion")):
            grouped = target.get("kind") != "ReplicationController"
            causes += version_causes("spec.scaleTargetRef", target, grouped=grouped)
        return causes if described_causes(old.get("spec") or {}) else causes + described_causes(new["spec"])


def _reference(obj: Object) -> str:
    target = at(obj, "spec", "scaleTargetRef") or {}
    return f"{target.get('kind') or ''}/{target.get('name') or ''}"


SOURCES = {
    "External": "external",
    "Pods": "pods",
    "Object": "object",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}
NOT_KNOWN, MOST_TARGETS = "<unknown>", 2


def _targets(obj: Object) -> str:
    """Return TARGETS: current and wanted value of the first metrics."""
    wanted, current = items(obj, "spec", "metrics"), items(obj, "status", "currentMetrics")
    current = [*current, *[{}] * (len(wanted) - len(current))]
    texts = [_target(each, now) for each, now in zip(wanted, current, strict=False)]
    more = f" + {len(texts) - MOST_TARGETS} more..." if len(texts) > MOST_TARGETS else ""
    return (", ".join(texts[:MOST_TARGETS]) + more) or NONE


def _target(metric: Object, status: Object) -> str:
    source = SOURCES.get(text(metric, "type"), "")
    target, current = at(metric, source, "target") or {}, at(status, source, "current") or {}
    is_resource = source in ("resource", "containerResource")
    if not source:
        return "<unknown type>"
    if source == "pods" or target.get("averageValue") is not None:
        end = " (avg)" if source in ("external", "object") else ""
        shown = f"{current.get('averageValue', NOT_KNOWN)}/{target.get('averageValue')}{end}"
    elif is_resource:
        now, wanted = (each.get("averageUtilization") for each in (current, target))
        shown = f"{NOT_KNOWN if now is None else f'{now}%'}/{'<auto>' if wanted is None else f'{wanted}%'}"
    else:
        shown = f"{current.get('value', NOT_KNOWN)}/{target.get('value')}"
    return f"{text(metric, source, 'name')}: {shown}" if is_resource else shown


AUTOSCALERS = Served(
    **asdict(kinds.HORIZONTALPODAUTOSCALERS),
    strategy=_AutoscalerStrategy(),
    columns=(
        NAME,
        Column("Reference", _reference),
        Column("Targets", _targets),
        Column("MinPods", cell("spec", "minReplicas", missing="<unset>")),
        Column("MaxPods", number("spec", "maxReplicas")),
        Column("Replicas", number("status", "currentReplicas")),
        AGE,
    ),
    subresources=(Subresource("status", STATUS_VERBS, "HorizontalPodAutoscaler", "autoscaling", "v2"),),
)
