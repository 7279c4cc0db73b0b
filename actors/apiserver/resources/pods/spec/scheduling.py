"""Affinity, spread constraints and gates. Messages equal upstream's."""

from typing import Any

from actors.apiserver.api.causes import duplicate, forbidden, invalid, required, unsupported
from actors.apiserver.resources.validation.selectors import label_selector, node_selector, preferred_node_term
from actors.apiserver.resources.validation.table import Causes, Struct, between, each, one_of, unique
from actors.apiserver.resources.validation.values import label_key
from protocols.kube.meta import Object
from protocols.kube.names import label_faults

KEY_EMPTY = "can not be empty"
NO_SELECTOR = "must not be specified when labelSelector is not set"


def _matched_keys(path: str, value: Object, causes: Causes, *fields: str) -> None:
    """Validate keys whose values are taken from the pod: they must not be in the selector."""
    selector = value.get("labelSelector")
    own = {requirement.get("key") for requirement in (selector or {}).get("matchExpressions") or ()}
    own |= set((selector or {}).get("matchLabels") or ())
    for field in fields:
        keys = value.get(field) or ()
        if keys and selector is None:
            causes.append(forbidden(f"{path}.{field}", NO_SELECTOR))
        for index, key in enumerate(keys):
            where = f"{path}.{field}[{index}]"
            label_key(where, key, causes)
            if key in own and field == fields[0]:
                causes.append(invalid(where, key, f"exists in both {field} and labelSelector"))


def _pod_term(path: str, value: Object, causes: Causes) -> None:
    TERM(path, value, causes)
    key = value.get("topologyKey") or ""
    if not key:
        causes.append(required(f"{path}.topologyKey", KEY_EMPTY))
    label_key(f"{path}.topologyKey", key, causes)
    for name in value.get("namespaces") or ():  # upstream's path is this one
        causes.extend(invalid(f"{path}.namespace", name, fault) for fault in label_faults(name))
    if value.get("matchLabelKeys") or value.get("mismatchLabelKeys"):
        _matched_keys(path, value, causes, "mismatchLabelKeys")
        for index, name in enumerate(value.get("matchLabelKeys") or ()):
            label_key(f"{path}.matchLabelKeys[{index}]", name, causes)
            if name in (value.get("mismatchLabelKeys") or ()):
                text = "exists in both matchLabelKeys and mismatchLabelKeys"
                causes.append(invalid(f"{path}.matchLabelKeys[{index}]", name, text))


TERM = Struct(labelSelector=label_selector, namespaceSelector=label_selector)
_weight = between(1, 100, "must be in the range 1-100")


def _weighted(field: str, check: Any) -> Struct:
    def weighed(path: str, value: Object, causes: Causes) -> None:
        _weight(f"{path}.weight", value.get("weight") or 0, causes)

    return Struct(also=weighed, fields={field: check})


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
POD_AFFINITY = Struct(fields={REQUIRED: each(_pod_term), PREFERRED: each(_weighted("podAffinityTerm", _pod_term))})
affinity = Struct(
    nodeAffinity=Struct(
        fields={REQUIRED: node_selector, PREFERRED: each(_weighted("preference", preferred_node_term))}
    ),
    podAffinity=POD_AFFINITY,
    podAntiAffinity=POD_AFFINITY,
)

_honor = one_of("Honor", "Ignore", empty=True)
SPREAD = Struct(nodeAffinityPolicy=_honor, nodeTaintsPolicy=_honor, labelSelector=label_selector)
ACTIONS = ("DoNotSchedule", "ScheduleAnyway")


def _constraint(path: str, value: Object, causes: Causes) -> None:
    SPREAD(path, value, causes)
    skew, domains, action = value.get("maxSkew") or 0, value.get("minDomains"), value.get("whenUnsatisfiable") or ""
    if skew <= 0:
        causes.append(invalid(f"{path}.maxSkew", skew, "must be greater than zero"))
    if not value.get("topologyKey"):
        causes.append(required(f"{path}.topologyKey", KEY_EMPTY))
    if action not in ACTIONS:
        causes.append(unsupported(f"{path}.whenUnsatisfiable", action, ACTIONS))
    if domains is not None and domains <= 0:
        causes.append(invalid(f"{path}.minDomains", domains, "must be greater than zero"))
    if domains is not None and action != "DoNotSchedule":
        text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        causes.append(invalid(f"{path}.minDomains", domains, text))
    if value.get("matchLabelKeys"):
        _matched_keys(path, value, causes, "matchLabelKeys")


def spread(path: str, values: list[Object], causes: Causes) -> None:
    """Check constraints. Of equal ones, upstream reports all but the last."""
    pairs = [(value.get("topologyKey") or "", value.get("whenUnsatisfiable") or "") for value in values]
    last = {pair: index for index, pair in enumerate(pairs)}
    for index, (value, pair) in enumerate(zip(values, pairs, strict=True)):
        _constraint(f"{path}[{index}]", value, causes)
        if last[pair] != index:
            where = f"{path}[{index}].{{topologyKey, whenUnsatisfiable}}"
            causes.append(duplicate(where, f"{{{pair[0]}, {pair[1]}}}"))


def gates(path: str, values: list[Object], causes: Causes) -> None:
    for index, value in enumerate(values):
        label_key(f"{path}[{index}]", value.get("name") or "", causes)
    unique(path, [value.get("name") or "" for value in values], causes)


def readiness_gates(path: str, values: list[Object], causes: Causes) -> None:
    for index, value in enumerate(values):
        label_key(f"{path}[{index}].conditionType", value.get("conditionType") or "", causes)
