"""Nodes: defaults and validation. Messages equal upstream's."""

import re

from protocols.kinds.check.causes import Cause, duplicate, forbidden, invalid
from protocols.kinds.check.table import Causes, Ordered, Struct, causes_of, each, one_of
from protocols.kinds.check.values import address, cidr, label_key, label_value
from protocols.kinds.served.strategy import Strategy
from protocols.kube.meta import Object
from protocols.kube.objects import at, items
from protocols.kube.quantity import parse_quantity
from protocols.kube.resource_names import is_extended

NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
"""Taint of a new node: upstream's admission plugin TaintNodesByCondition."""
FEATURE = re.compile(r"[A-Z][A-Za-z0-9]*(/[A-Za-z0-9]+)*")
FEATURE_TEXT = (
    "must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or "
    "MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
)
_effect = one_of("NoSchedule", "PreferNoSchedule", "NoExecute")
TAINT = Struct("effect", effect=_effect, value=label_value)


def _taints(values: list[Object], causes: Causes) -> None:
    """Validate taints. Upstream reports them below `metadata`."""
    seen = set()
    for index, value in enumerate(values):
        path, pair = f"metadata.taints[{index}]", (value.get("key") or "", value.get("effect") or "")
        label_key(f"{path}.key", pair[0], causes)
        TAINT(path, value, causes)
        if pair in seen:
            causes.append(duplicate(path, value))
        seen.add(pair)


def _networks(values: list[str], causes: Causes) -> None:
    path = "spec.podCIDRs"
    for index, text in enumerate(values):
        cidr(f"{path}[{index}]", text, causes)
    families = [parsed and parsed.version for parsed in (address(text.partition("/")[0]) for text in values)]
    if len(values) > 1:
        if None in families:
            wrong = f"invalid CIDR[{families.index(None)}]"
            text = f"Internal error: invalid PodCIDRs. failed to check with dual stack with error:{wrong}"
            causes.append(Cause(path, "InternalError", text))
        if None in families or len(set(families)) < len(families):
            causes.append(invalid(path, values, "may specify no more than one CIDR for each IP family"))


def _amounts(path: str, values: Object, causes: Causes) -> None:
    for name, value in values.items():
        amount = parse_quantity(value)
        if amount.nanos < 0:
            causes.append(invalid(f"{path}.{name}", str(value), "must be greater than or equal to 0"))
        if not amount.is_integer and (name == "pods" or is_extended(name)):
            causes.append(invalid(f"{path}.{name}", str(value), "must be an integer"))


def _amount_causes(node: Object) -> list[Cause]:
    causes: Causes = []
    for field in ("capacity", "allocatable"):
        _amounts(f"status.{field}", at(node, "status", field) or {}, causes)
    return causes


def _status_causes(node: Object) -> list[Cause]:
    causes = _amount_causes(node)
    seen = set()
    for index, item in enumerate(items(node, "status", "addresses")):
        pair = item.get("type"), item.get("address")
        if pair in seen:
            causes.append(duplicate(f"status.addresses[{index}]", {"Type": pair[0], "Address": pair[1]}))
        seen.add(pair)
    return causes


def _feature(path: str, name: str, causes: Causes) -> None:
    if not FEATURE.fullmatch(name):
        causes.append(invalid(path, name, f'invalid feature name "{name}": {FEATURE_TEXT}'))


_FEATURES = Ordered(status=Ordered(declaredFeatures=each(_feature)))


def _same_taint(taint: Object) -> bool:
    return all(taint.get(field) == value for field, value in NOT_READY.items())


class NodeStrategy(Strategy):
    """Nodes: kubelets register with a status, and the taint not-ready is there from the first moment."""

    has_status = True

    def default(self, obj: Object) -> None:
        """Make podCIDRs agree with podCIDR, which wins; a node allocates what it has unless it reports less."""
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        first, every = spec.get("podCIDR"), spec.get("podCIDRs")
        if first and (not every or every[0] != first):
            spec["podCIDRs"] = [first]
        elif every and not first:
            spec["podCIDR"] = every[0]
        self._default_status(status)

    def _default_status(self, status: Object) -> None:
        if status.get("capacity") and not status.get("allocatable"):
            status["allocatable"] = dict(status["capacity"])

    def prepare_create(self, obj: Object) -> None:
        """Preserve the status, with which kubelets register, and taint the node until a controller sees it Ready."""
        taints = items(obj, "spec", "taints")
        if not any(_same_taint(taint) for taint in taints):
            obj.setdefault("spec", {})["taints"] = [*taints, dict(NOT_READY)]

    def prepare_status(self, new: Object, old: Object) -> None:
        super().prepare_status(new, old)
        self._default_status(new.get("status") or {})

    def validate_create(self, obj: Object) -> list[Cause]:
        causes: Causes = []
        _taints(items(obj, "spec", "taints"), causes)
        _networks(at(obj, "spec", "podCIDRs") or [], causes)
        return causes + _amount_causes(obj) + causes_of(_FEATURES, "", obj)

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes = self.validate_create(new)
        for field, shown in (("podCIDRs", "podCIDR"), ("providerID", "providerID")):
            before = at(old, "spec", field)
            if before and at(new, "spec", field) != before:
                text = f'node updates may not change {shown} except from "" to valid'
                causes.append(forbidden(f"spec.{field}", text))
        return causes

    def validate_status(self, new: Object, old: Object) -> list[Cause]:
        return _status_causes(new) + causes_of(_FEATURES, "", new)
