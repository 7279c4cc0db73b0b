"""Why a pod cannot run on a node: upstream's filters and their words. Pure. No reason means that it fits."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from actors.scheduler.types import NodeLoad, NodeView, PodView, Taint
from protocols.kube.node_selector import term_matches

NOT_READY = "node(s) were not ready"
UNSCHEDULABLE = "node(s) were unschedulable"
SELECTOR = "node(s) didn't match Pod's node affinity/selector"
NOTHING: frozenset[str] = frozenset()


def reasons(pod: PodView, load: NodeLoad, backed: frozenset[str] = NOTHING) -> list[str]:
    """All shortages are told at once; the other filters stop at the first, as upstream's do. `backed`: resources that
    are found elsewhere where the node has none of its own."""
    node = load.view
    if not node.ready:
        return [NOT_READY]
    if node.unschedulable and not _tolerated(pod, Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")):
        return [UNSCHEDULABLE]
    if (pod.node_selector or pod.affinity_terms) and not selected(pod, node):
        return [SELECTOR]
    if node.taints and (taint := _hostile_taint(pod, node)):
        value = f"{taint.key}: {taint.value}" if taint.value else taint.key
        return [f"node(s) had untolerated taint {{{value}}}"]
    return shortages(pod, load, backed)


def shortages(pod: PodView, load: NodeLoad, backed: frozenset[str] = NOTHING) -> list[str]:
    free, used = load.view.allocatable, load.used
    short = []
    for name, asked in pod.requests.items():
        if asked > free.get(name, 0) - used.get(name, 0) and asked and (free.get(name) or name not in backed):
            short.append(name)
    if not short:
        return short
    return ["Too many pods" if name == "pods" else f"Insufficient {name}" for name in sorted(short)]


def selected(pod: PodView, node: NodeView) -> bool:
    if any(node.labels.get(key) != value for key, value in pod.node_selector.items()):
        return False
    terms = pod.affinity_terms
    return not terms or any(term_matches(term, node.name, node.labels) for term in terms)


def _hostile_taint(pod: PodView, node: NodeView) -> Taint | None:
    hard = (taint for taint in node.taints if taint.effect in ("NoSchedule", "NoExecute"))
    return next((taint for taint in hard if not _tolerated(pod, taint)), None)


def _tolerated(pod: PodView, taint: Taint) -> bool:
    return any(_tolerates(toleration, taint) for toleration in pod.tolerations)


def _tolerates(toleration: Mapping[str, Any], taint: Taint) -> bool:
    if toleration.get("effect") not in (None, "", taint.effect):
        return False
    if (toleration.get("key") or "") not in ("", taint.key):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("key")) and (toleration.get("value") or "") == taint.value


def explained(nodes: int, found: Iterable[list[str]]) -> str:
    """Upstream's sentence: `0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable.`"""
    if not nodes:
        return "no nodes available to schedule pods"
    counts = Counter(reason for reasons_ in found for reason in reasons_)
    return f"0/{nodes} nodes are available: {', '.join(sorted(f'{n} {reason}' for reason, n in counts.items()))}."
