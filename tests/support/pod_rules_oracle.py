"""Inter-pod affinity and topology spread by their definitions, read from the objects, with nothing counted ahead."""

from typing import Any

from protocols.kinds import views
from protocols.kube.meta import meta

HARD = "requiredDuringSchedulingIgnoredDuringExecution"
AFFINITY = "node(s) didn't match pod affinity rules"
ANTI = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"
SPREAD = "node(s) didn't match pod topology spread constraints"
LABEL = f"{SPREAD} (missing required label)"
Placed = list[tuple[views.Pod, views.Node]]
"""Pods with their nodes."""
Namespaces = dict[str, dict[str, str]]


def reason(pod: views.Pod, node: views.Node, nodes: list[views.Node], placed: Placed, namespaces: Namespaces) -> str:
    """Return why the pod may not go to the node; empty if it may."""
    return _spread(pod, node, nodes, placed) or _affinity(pod, node, placed, namespaces)


def _labels(obj: views.Pod | views.Node) -> dict[str, str]:
    found: dict[str, str] = meta(obj).get("labels") or {}
    return found


def _rules(pod: views.Pod, kind: str) -> list[Any]:
    affinity: Any = pod["spec"].get("affinity") or {}
    return list((affinity.get(kind) or {}).get(HARD) or ())


def _selects(selector: Any, labels: dict[str, str]) -> bool:
    if selector is None:
        return False
    exact = all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items())
    return exact and all(_holds(expression, labels) for expression in selector.get("matchExpressions") or ())


def _holds(expression: Any, labels: dict[str, str]) -> bool:
    key, values = expression["key"], expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    raise AssertionError(expression)


def _own_keys(term: Any, owner: views.Pod, other: views.Pod) -> bool:
    """The two pods agree on matchLabelKeys and differ in mismatchLabelKeys, as far as the owner has them."""
    mine, theirs = _labels(owner), _labels(other)
    same = all(theirs.get(key) == mine[key] for key in term.get("matchLabelKeys") or () if key in mine)
    return same and all(theirs.get(key) != mine[key] for key in term.get("mismatchLabelKeys") or () if key in mine)


def _term(term: Any, owner: views.Pod, other: views.Pod, namespaces: Namespaces) -> bool:
    """The term of one pod selects another."""
    there = meta(other)["namespace"]
    if "namespaceSelector" not in term and not term.get("namespaces"):
        inside = there == meta(owner)["namespace"]
    else:
        inside = there in (term.get("namespaces") or ()) or _selects(
            term.get("namespaceSelector"), namespaces.get(there, {})
        )
    return inside and _selects(term.get("labelSelector"), _labels(other)) and _own_keys(term, owner, other)


def _together(term: Any, one: views.Node, other: views.Node) -> bool:
    key = term["topologyKey"]
    return key in _labels(one) and key in _labels(other) and _labels(one)[key] == _labels(other)[key]


def _affinity(pod: views.Pod, node: views.Node, placed: Placed, namespaces: Namespaces) -> str:
    near = _rules(pod, "podAffinity")
    if near:
        friends = [at for at in placed if all(_term(term, pod, at[0], namespaces) for term in near)]
        has_labels = all(term["topologyKey"] in _labels(node) for term in near)
        met = all(any(_together(term, node, where) for _, where in friends) for term in near)
        alone = not any(term["topologyKey"] in _labels(where) for _, where in friends for term in near)
        first = alone and all(_term(term, pod, pod, namespaces) for term in near)
        if not has_labels or not (met or first):
            return AFFINITY
    for term in _rules(pod, "podAntiAffinity"):
        if any(_term(term, pod, other, namespaces) and _together(term, node, where) for other, where in placed):
            return ANTI
    for other, where in placed:
        for term in _rules(other, "podAntiAffinity"):
            if _term(term, other, pod, namespaces) and _together(term, node, where):
                return EXISTING
    return ""


def _spread(pod: views.Pod, node: views.Node, nodes: list[views.Node], placed: Placed) -> str:
    hard = [
        constraint
        for constraint in pod["spec"].get("topologySpreadConstraints") or ()
        if constraint["whenUnsatisfiable"] != "ScheduleAnyway"
    ]
    for each in hard:
        key = each["topologyKey"]
        if key not in _labels(node):
            return LABEL
        counted = [at for at in nodes if all(other["topologyKey"] in _labels(at) for other in hard)]
        counted = [at for at in counted if _counts(each, pod, at)]
        domains = {_labels(at)[key]: 0 for at in counted}
        for other, where in placed:
            if where in counted and _peer(each, pod, other):
                domains[_labels(where)[key]] += 1
        least = min(domains.values(), default=0) if len(domains) >= (each.get("minDomains") or 1) else 0
        if domains.get(_labels(node)[key], 0) + _selected(each, pod, pod) - least > each["maxSkew"]:
            return SPREAD
    return ""


def _peer(constraint: Any, pod: views.Pod, other: views.Pod) -> bool:
    if meta(other)["namespace"] != meta(pod)["namespace"] or meta(other).get("deletionTimestamp"):
        return False
    return _selected(constraint, pod, other)


def _selected(constraint: Any, pod: views.Pod, other: views.Pod) -> bool:
    """A selector without requirements, matchLabelKeys included, selects no pod."""
    own = [key for key in constraint.get("matchLabelKeys") or () if key in _labels(pod)]
    if not any((constraint.get("labelSelector") or {}).values()) and not own:
        return False
    return _selects(constraint.get("labelSelector"), _labels(other)) and _own_keys(constraint, pod, other)


def _counts(constraint: Any, pod: views.Pod, node: views.Node) -> bool:
    wanted = pod["spec"].get("nodeSelector") or {}
    affine = all(_labels(node).get(key) == value for key, value in wanted.items())
    tainted = any(taint["effect"] == "NoSchedule" for taint in node["spec"].get("taints") or ())
    tolerant = bool(pod["spec"].get("tolerations"))
    if constraint.get("nodeAffinityPolicy") != "Ignore" and not affine:
        return False
    return not (constraint.get("nodeTaintsPolicy") == "Honor" and tainted and not tolerant)
