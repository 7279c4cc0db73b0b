"""Affinity, spread constraints and gates. Messages equal upstream's."""

from collections.abc import Collection
from typing import Any

from protocols.kinds.check.causes import duplicate, forbidden, invalid, required, unsupported
from protocols.kinds.check.selectors import label_selector, node_selector, preferred_node_term
from protocols.kinds.check.table import Causes, Struct, between, each, one_of, unique
from protocols.kinds.check.values import label_key
from protocols.kube.meta import Object
from protocols.kube.names import label_faults

KEY_EMPTY = "can not be empty"
NO_SELECTOR = "must not be specified when labelSelector is not set"


def _label_keys(path: str, value: Object, causes: Causes) -> None:
    """Validate matchLabelKeys and mismatchLabelKeys, which a new pod's selectors have merged already.

    So a selector has a matched key once; that of a template has it once if the user wrote it, which its pods report.
    """
    selector = value.get("labelSelector")
    matched, mismatched = value.get("matchLabelKeys") or (), value.get("mismatchLabelKeys") or ()
    for field, keys in (("matchLabelKeys", matched), ("mismatchLabelKeys", mismatched)):
        if keys and selector is None:
            causes.append(forbidden(f"{path}.{field}", NO_SELECTOR))
            continue
        for index, key in enumerate(keys):
            label_key(f"{path}.{field}[{index}]", key, causes)
    _selected_twice(path, matched, selector or {}, causes)
    both = set(mismatched).intersection(matched)
    for index, key in enumerate(matched):
        if key in both:
            text = "exists in both matchLabelKeys and mismatchLabelKeys"
            causes.append(invalid(f"{path}.matchLabelKeys[{index}]", key, text))


def _selected_twice(path: str, matched: Collection[str], selector: Object, causes: Causes) -> None:
    """Report matched keys that the selector has more than once. Upstream's path lacks the field."""
    indexes = {key: index for index, key in enumerate(matched)}
    selected = set(selector.get("matchLabels") or ())
    for requirement in selector.get("matchExpressions") or ():
        key = requirement.get("key") or ""
        if key in indexes and key in selected:
            causes.append(invalid(f"{path}[{indexes[key]}]", key, "exists in both matchLabelKeys and labelSelector"))
        selected.add(key)


def _pod_term(path: str, value: Object, causes: Causes) -> None:
    TERM(path, value, causes)
    key = value.get("topologyKey") or ""
    if not key:
        causes.append(required(f"{path}.topologyKey", KEY_EMPTY))
    label_key(f"{path}.topologyKey", key, causes)
    for name in value.get("namespaces") or ():  # upstream's path is this one
        causes.extend(invalid(f"{path}.namespace", name, fault) for fault in label_faults(name))
    _label_keys(path, value, causes)


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
    _label_keys(path, value, causes)


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
    """Check scheduling gates: label keys, each once."""
    for index, value in enumerate(values):
        label_key(f"{path}[{index}]", value.get("name") or "", causes)
    unique(path, [value.get("name") or "" for value in values], causes)


def readiness_gates(path: str, values: list[Object], causes: Causes) -> None:
    """Check readiness gates: label keys."""
    for index, value in enumerate(values):
        label_key(f"{path}[{index}].conditionType", value.get("conditionType") or "", causes)
