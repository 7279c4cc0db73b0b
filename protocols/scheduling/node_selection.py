"""Node selector and required node affinity of a pod."""

from collections.abc import Mapping, Sequence
from typing import Any

from protocols.kube.selectors import term_matches

NOT_SELECTED = "node(s) didn't match Pod's node affinity/selector"
Term = Mapping[str, Any]
"""One of nodeSelectorTerms."""


def node_term(term: Mapping[str, Any]) -> dict[str, Any]:
    """Return one node selector term with only what matching reads."""
    parts = ("matchExpressions", "matchFields")
    return {part: [_requirement(demand) for demand in term.get(part) or ()] for part in parts}


def _requirement(demand: Mapping[str, Any]) -> dict[str, Any]:
    values = [str(value) for value in demand.get("values") or ()]
    return {"key": str(demand.get("key") or ""), "operator": demand.get("operator"), "values": values}


def required_terms(spec: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """Return the terms of required node affinity, one of which must match; none means that there is no requirement."""
    node_affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return tuple(map(node_term, required.get("nodeSelectorTerms") or ()))


def selects_node(selector: Mapping[str, str], terms: Sequence[Term], node: str, labels: Mapping[str, str]) -> bool:
    """Return True if the node has the labels of a node selector and matches one of the terms, if there are any."""
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    return not terms or any(term_matches(term, node, labels) for term in terms)
