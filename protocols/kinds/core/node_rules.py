"""Nodes: defaults and validation. Messages equal upstream's."""

import itertools
import re

from protocols.kinds.check.causes import Cause, duplicate, forbidden, invalid
from protocols.kinds.check.table import Causes, Check, Ordered, anything, each, needed, one_of
from protocols.kinds.check.values import address, cidr, label_key, label_value, positive
from protocols.kinds.served.strategy import Strategy
from protocols.kube.meta import Object
from protocols.kube.objects import at, items
from protocols.kube.quantity import parse_quantity
from protocols.kube.resource_names import is_extended

EXTERNAL_ID = "spec.externalID: this field is deprecated, and is unused by Kubernetes"
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
"""Taint of a new node: upstream's admission plugin TaintNodesByCondition."""
FEATURE = re.compile(r"[A-Z][A-Za-z0-9]*(/[A-Za-z0-9]+)*")
FEATURE_LENGTH = 253
FEATURE_TEXT = (
    "must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or "
    "MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
)
_effect = one_of("NoSchedule", "PreferNoSchedule", "NoExecute")
TAINT = Ordered("key effect", key=label_key, effect=needed(_effect), value=label_value)


def _taints(path: str, taints: list[Object], causes: Causes) -> None:
    """Check taints. Upstream reports them below `metadata`."""
    seen = set()
    for index, taint in enumerate(taints):
        where, pair = f"metadata.taints[{index}]", (taint.get("key"), taint.get("effect"))
        TAINT(where, taint, causes)
        if pair in seen:
            causes.append(duplicate(where, taint, "taints must be unique by key and effect pair"))
        seen.add(pair)


def _networks(path: str, values: list[str], causes: Causes) -> None:
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


def _address(address: Object) -> tuple[str, str]:
    return address.get("type") or "", address.get("address") or ""


def _features(path: str, names: list[str], causes: Causes) -> None:
    """Check declared features, which are sorted."""
    for index, (before, name) in enumerate(itertools.pairwise(("", *names))):
        where = f"{path}[{index}]"
        if len(name) > FEATURE_LENGTH:
            text = f"must be no more than {FEATURE_LENGTH} characters"
            causes.append(invalid(where, name, f'invalid feature name "{name}": {text}'))
        elif not FEATURE.fullmatch(name):
            causes.append(invalid(where, name, f'invalid feature name "{name}": {FEATURE_TEXT}'))
        if index and name == before:
            causes.append(duplicate(where, name))
        elif name < before:
            causes.append(invalid(where, name, "list must be sorted alphabetically"))


def _swap(path: str, capacity: int, causes: Causes) -> None:
    """Check the size of a node's swap. Upstream reports it below `metadata`."""
    positive("metadata.nodeSwapStatus.capacity", capacity, causes)


_AMOUNTS: dict[str, Check] = {"capacity": _amounts, "allocatable": _amounts}
_INFO = Ordered(swap=Ordered(capacity=_swap))


def _same_taint(taint: Object) -> bool:
    return all(taint.get(field) == value for field, value in NOT_READY.items())


class NodeStrategy(Strategy):
    """Nodes: kubelets register with a status, and the taint not-ready is there from the first moment."""

    has_status = True
    rules = Ordered(
        spec=Ordered(taints=_taints, podCIDRs=_networks),
        status=Ordered(**_AMOUNTS, nodeInfo=_INFO, declaredFeatures=_features),
    )
    status_rules = Ordered(
        status=Ordered(**_AMOUNTS, addresses=each(anything, key=_address), declaredFeatures=_features)
    )

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

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        return [EXTERNAL_ID] if at(new, "spec", "externalID") else []

    def prepare_status(self, new: Object, old: Object) -> None:
        super().prepare_status(new, old)
        self._default_status(new.get("status") or {})

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes = self.validate_create(new)
        if (at(new, "spec", "externalID") or "") != (at(old, "spec", "externalID") or ""):
            causes.append(forbidden("spec.externalID", "may not be updated"))
        for field, shown in (("podCIDRs", "podCIDR"), ("providerID", "providerID")):
            before = at(old, "spec", field)
            if before and at(new, "spec", field) != before:
                text = f'node updates may not change {shown} except from "" to valid'
                causes.append(forbidden(f"spec.{field}", text))
        return causes
