"""Metrics of HorizontalPodAutoscalers: one source each, and a target that suits it. Messages equal upstream's."""

from protocols.kinds.check.causes import forbidden, invalid, required, unsupported
from protocols.kinds.check.table import Causes, Check, Ordered, at_least, needed, together
from protocols.kinds.check.values import label, path_segment
from protocols.kube.meta import Object
from protocols.kube.objects import at, items
from protocols.kube.quantity import parse_quantity

TARGET_TYPES = ("Utilization", "Value", "AverageValue")
FIELDS = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
"""The field of each type of metric."""
reference = Ordered("kind name", kind=needed(path_segment), name=needed(path_segment))
"""Check of a reference to an object of any version, without its apiVersion."""


def version_causes(path: str, reference: Object, *, grouped: bool = False) -> Causes:
    """Check the apiVersion of a reference, which may be missing unless it must name a group."""
    version = reference.get("apiVersion") or ""
    group, slash, _ = version.partition("/")
    if version.count("/") > 1:
        return [invalid(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}")]
    if grouped and not (slash and group):
        return [invalid(f"{path}.apiVersion", version, "apiVersion must specify API group")]
    return []


def described_causes(spec: Object) -> Causes:
    """Check the versions of the objects that metrics describe."""
    return [
        cause
        for index, metric in enumerate(items(spec, "metrics"))
        for cause in version_causes(
            f"spec.metrics[{index}].object.describedObject", at(metric, "object", "describedObject") or {}
        )
    ]


def _target_type(path: str, value: str, causes: Causes) -> None:
    if not value:
        causes.append(required(path, "must specify a metric target type"))
    if value not in TARGET_TYPES:
        causes.append(invalid(path, value, "must be either Utilization, Value, or AverageValue"))


def _positive(path: str, value: str | int | float, causes: Causes) -> None:
    if parse_quantity(value).nanos <= 0:
        causes.append(invalid(path, value, "must be positive"))


def _amount(*fields: str, lacking: tuple[str, str], both: tuple[str, str] | None = None) -> Check:
    """Check that a target has one of the fields.

    `lacking` is the field to report if it has none, with upstream's text, `both` the one to report if it has two.
    """

    def check(path: str, source: Object, causes: Causes) -> None:
        target = source.get("target") or {}
        present = sum(target.get(field) is not None for field in fields)
        if not present:
            causes.append(required(f"{path}.target.{lacking[0]}", lacking[1]))
        elif both is not None and present > 1:
            causes.append(forbidden(f"{path}.target.{both[0]}", both[1]))

    return check


_TARGET = Ordered(
    "type",
    type=_target_type,
    value=_positive,
    averageValue=_positive,
    averageUtilization=at_least(1, "must be greater than 0"),
)
_METRIC = Ordered("name", name=needed(path_segment, "must specify a metric name"))
_RESOURCE = needed(lambda path, name, causes: None, "must specify a resource name")
_OF_PODS = _amount(
    "averageUtilization",
    "averageValue",
    lacking=("averageUtilization", "must set either a target raw value or a target utilization"),
    both=("averageValue", "may not set both a target raw value and a target utilization"),
)
SOURCES: dict[str, Check] = {
    "object": together(
        Ordered("describedObject={} metric={} target={}", describedObject=reference, metric=_METRIC, target=_TARGET),
        _amount("value", "averageValue", lacking=("averageValue", "must set either a target value or averageValue")),
    ),
    "external": together(
        Ordered("metric={} target={}", metric=_METRIC, target=_TARGET),
        _amount(
            "value",
            "averageValue",
            lacking=("averageValue", "must set either a target value for metric or a per-pod target"),
            both=("value", "may not set both a target value for metric and a per-pod target"),
        ),
    ),
    "pods": together(
        Ordered("metric={} target={}", metric=_METRIC, target=_TARGET),
        _amount("averageValue", lacking=("averageValue", "must specify a positive target averageValue")),
    ),
    "resource": together(Ordered("name target={}", name=_RESOURCE, target=_TARGET), _OF_PODS),
    "containerResource": together(
        Ordered(
            "name container target={}",
            name=_RESOURCE,
            container=needed(label, "must specify a container"),
            target=_TARGET,
        ),
        _OF_PODS,
    ),
}
"""Checks by field, in the order in which upstream looks for one."""


def metric(path: str, value: Object, causes: Causes) -> None:
    """Check one metric: the first source that it has, and that it has no other."""
    kind = value.get("type") or ""
    field = FIELDS.get(kind, "")
    if not kind:
        causes.append(required(f"{path}.type", "must specify a metric source type"))
    if not field:
        causes.append(unsupported(f"{path}.type", kind, tuple(FIELDS)))
    present = [name for name in SOURCES if value.get(name) is not None]
    if present:
        SOURCES[present[0]](f"{path}.{present[0]}", value[present[0]], causes)
    if field and field not in present:
        causes.append(required(f"{path}.{field}", "must populate information for the given metric source"))
    if len(present) > 1:
        only = "must populate the given metric source only"
        causes.extend(forbidden(f"{path}.{name}", only) for name in present if name != field)
