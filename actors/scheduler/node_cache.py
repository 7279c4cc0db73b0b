"""Nodes with the requests of the pods on them, and the filters and scores of nodes. Pure.

Pods are assumed to be bound before the API shows it. Invariant: a pod counts on exactly one node, from the moment it is
assumed until it has finished or is gone. Filter messages are upstream's.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from actors.scheduler.views import NodeLoad, NodeView, PodView, Taint, add
from protocols.kube.selectors import term_matches

NOT_READY = "node(s) were not ready"
UNSCHEDULABLE = "node(s) were unschedulable"
SELECTOR = "node(s) didn't match Pod's node affinity/selector"
NOTHING: frozenset[str] = frozenset()
TURN_S = 0.01
"""Seconds of filtering between two yields to the event loop."""


def reasons(pod: PodView, load: NodeLoad, backed: frozenset[str] = NOTHING) -> list[str]:
    """Return why the node is rejected; empty if the pod fits.

    As upstream, all insufficient resources are reported, the other filters stop at the first reason. `backed` resources
    need not be on the node if it has none of them at all.
    """
    node = load.view
    if not node.ready:
        return [NOT_READY]
    if node.unschedulable and not _tolerated(pod, Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")):
        return [UNSCHEDULABLE]
    if (pod.node_selector or pod.affinity_terms) and not selected(pod, node):
        return [SELECTOR]
    if node.taints and (taint := _untolerated_taint(pod, node)):
        value = f"{taint.key}: {taint.value}" if taint.value else taint.key
        return [f"node(s) had untolerated taint {{{value}}}"]
    return shortages(pod, load, backed)


def shortages(pod: PodView, load: NodeLoad, backed: frozenset[str] = NOTHING) -> list[str]:
    free, used = load.view.allocatable, load.used
    short = []
    for name, requested in pod.requests.items():
        if requested > free.get(name, 0) - used.get(name, 0) and requested and (free.get(name) or name not in backed):
            short.append(name)
    if not short:
        return short
    return ["Too many pods" if name == "pods" else f"Insufficient {name}" for name in sorted(short)]


def selected(pod: PodView, node: NodeView) -> bool:
    if any(node.labels.get(key) != value for key, value in pod.node_selector.items()):
        return False
    terms = pod.affinity_terms
    return not terms or any(term_matches(term, node.name, node.labels) for term in terms)


def _untolerated_taint(pod: PodView, node: NodeView) -> Taint | None:
    blocking = (taint for taint in node.taints if taint.effect in ("NoSchedule", "NoExecute"))
    return next((taint for taint in blocking if not _tolerated(pod, taint)), None)


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


def summary(nodes: int, found: Iterable[list[str]]) -> str:
    """Return upstream's message, such as `0/2 nodes are available: 2 node(s) were unschedulable`."""
    if not nodes:
        return "no nodes available to schedule pods"
    counts = Counter(reason for reasons_ in found for reason in reasons_)
    return f"0/{nodes} nodes are available: {', '.join(sorted(f'{n} {reason}' for reason, n in counts.items()))}."


NONE: Mapping[str, int] = {}


def least_allocated_score(pod: PodView, load: NodeLoad) -> float:
    """Return the mean share of cpu and memory left free with the pod; 0.0 for a node with neither."""
    shares = []
    for name in ("cpu", "memory"):
        if total := load.view.allocatable.get(name, 0):
            shares.append((total - load.used.get(name, 0) - pod.requests.get(name, 0)) / total)
    return sum(shares) / len(shares) if shares else 0.0


def best_node(pod: PodView, fitting: Mapping[str, NodeLoad], scores: Mapping[str, int] = NONE) -> str:
    """Return the best node by `scores`, then by free share, then by name, so that the choice is repeatable."""
    return max(fitting, key=lambda name: (scores.get(name, 0), least_allocated_score(pod, fitting[name]), name))


@dataclass
class Cache:
    nodes: dict[str, NodeLoad] = field(default_factory=dict)
    placed: dict[str, tuple[str, PodView]] = field(default_factory=dict)
    """Node and view of each pod, by uid."""

    def node(self, view: NodeView) -> bool:
        """Update a node. Return False if nothing relevant changed."""
        known = self.nodes.get(view.name)
        if known and known.view == view:
            return False
        self.nodes[view.name] = NodeLoad(view, known.used if known else self._used(view.name))
        return True

    def forget_node(self, name: str) -> None:
        self.nodes.pop(name, None)

    def place(self, node: str, pod: PodView) -> None:
        """Count a pod that is bound, or assumed to be."""
        if self.placed.get(pod.uid) == (node, pod):
            return
        self.forget(pod.uid)
        self.placed[pod.uid] = (node, pod)
        if load := self.nodes.get(node):
            add(load.used, pod.requests)

    def forget(self, uid: str) -> bool:
        """Stop counting a pod. Return True if it was counted."""
        held = self.placed.pop(uid, None)
        if held is None:
            return False
        if load := self.nodes.get(held[0]):
            for name, amount in held[1].requests.items():
                load.used[name] = load.used.get(name, 0) - amount
                if not load.used[name]:
                    del load.used[name]  # anybody's pod may name resources nobody has
        return True

    async def feasible(
        self, pod: PodView, backed: frozenset[str] = NOTHING
    ) -> tuple[dict[str, NodeLoad], dict[str, list[str]]]:
        """Return the nodes that fit, and the reasons of the others.

        A pod may have 30,000 affinity terms, and there are many nodes: others have their turn after TURN_S.
        """
        fitting: dict[str, NodeLoad] = {}
        rejected: dict[str, list[str]] = {}
        began = time.perf_counter()
        for name in list(self.nodes):
            if (load := self.nodes.get(name)) is None:
                continue
            if why := reasons(pod, load, backed):
                rejected[name] = why
            else:
                fitting[name] = load
            if time.perf_counter() - began > TURN_S:
                await asyncio.sleep(0)
                began = time.perf_counter()
        return self._still(fitting), rejected

    def _still(self, fitting: dict[str, NodeLoad]) -> dict[str, NodeLoad]:
        """Return those nodes that exist as they were filtered, now that others had their turn."""
        return {name: load for name, load in fitting.items() if self.nodes.get(name) is load}

    def assumed_node(self, uid: str) -> str:
        """Return the existing node that the pod is assumed on, or ""."""
        node = self.placed[uid][0] if uid in self.placed else ""
        return node if node in self.nodes else ""

    def _used(self, node: str) -> dict[str, int]:
        used: dict[str, int] = {}
        for name, pod in self.placed.values():
            if name == node:
                add(used, pod.requests)
        return used
