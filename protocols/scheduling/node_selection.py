"""Node selector and required node affinity of a pod."""

from collections.abc import Mapping, Sequence

from protocols.kinds import views
from protocols.kube.selectors import term_matches

NOT_SELECTED = "node(s) didn't match Pod's node affinity/selector"
NOT_NAMED = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
"""Upstream's text for nodes that the pod's terms leave out by name: no other filter judges them."""


def node_term(term: views.NodeSelectorTerm) -> views.NodeSelectorTerm:
    """Return one node selector term with only what matching reads."""
    return {
        "matchExpressions": [_requirement(demand) for demand in term.get("matchExpressions") or ()],
        "matchFields": [_requirement(demand) for demand in term.get("matchFields") or ()],
    }


def _requirement(demand: views.NodeSelectorRequirement) -> views.NodeSelectorRequirement:
    values = [str(value) for value in demand.get("values") or ()]
    return {"key": str(demand.get("key") or ""), "operator": demand.get("operator") or "", "values": values}


def required_terms(spec: views.PodSpec) -> tuple[views.NodeSelectorTerm, ...]:
    """Return the terms of required node affinity, one of which must match; none means that there is no requirement."""
    node_affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return tuple(map(node_term, required.get("nodeSelectorTerms") or ()))


def named_nodes(terms: Sequence[views.NodeSelectorTerm]) -> frozenset[str] | None:
    """Return the nodes that required terms name, all of which name some; None if a term names none."""
    names = [_names(term) for term in terms]
    known = [each for each in names if each is not None]
    return frozenset().union(*known) if terms and len(known) == len(names) else None


def _names(term: views.NodeSelectorTerm) -> frozenset[str] | None:
    """Return the names that all of a term's fields allow; None if it has no such field."""
    named = [
        frozenset(demand.get("values") or ())
        for demand in term.get("matchFields") or ()
        if demand.get("key") == "metadata.name" and demand.get("operator") == "In"
    ]
    return frozenset.intersection(*named) if named else None


def selects_node(
    selector: Mapping[str, str], terms: Sequence[views.NodeSelectorTerm], node: str, labels: Mapping[str, str]
) -> bool:
    """Return True if the node has the labels of a node selector and matches one of the terms, if there are any."""
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    return not terms or any(term_matches(term, node, labels) for term in terms)
