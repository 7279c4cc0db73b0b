"""Nodes with the requests of the pods on them, and the filters of nodes. Pure.

Pods are assumed to be bound before the API shows it. Invariant: a pod counts on exactly one node, from the moment it is
assumed until it has finished or is gone. Filter messages are upstream's.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import msgspec

from actors.scheduler.affinity.filters import PodFilters, pod_filters
from actors.scheduler.affinity.pod_index import PodIndex
from actors.scheduler.affinity.scores import PodScores, is_scored
from actors.scheduler.model.changes import Changes
from actors.scheduler.model.image_locality import ImageSpread
from actors.scheduler.model.turns import Turns
from actors.scheduler.model.views import VERSIONS, NodeLoad, NodeView, PodView
from actors.scheduler.nodes.node_memo import NodeMemos
from actors.scheduler.nodes.scoring import Preferences, node_preference
from protocols.kube.taints import UNSCHEDULABLE_TAINT, tolerated, untolerated
from protocols.scheduling import node_fit
from protocols.scheduling.host_ports import NO_PORTS
from protocols.scheduling.node_selection import NOT_NAMED, NOT_SELECTED, selects_node

NOT_READY = "node(s) were not ready"
UNSCHEDULABLE = "node(s) were unschedulable"
UNDECLARED = "node declared features check failed - unsatisfied requirements: "
UNTOLERATED = "node(s) had untolerated taint(s)"
"""Names no taint, as upstream: who may read a pod need not be allowed to read nodes."""
TOO_MANY, INSUFFICIENT = "Too many pods", "Insufficient "
NOTHING: frozenset[str] = frozenset()
TURN_S = 0.01
"""Seconds of filtering between two yields to the event loop."""


def reasons(pod: PodView, load: NodeLoad, backed: frozenset[str] = NOTHING) -> list[str]:
    """Return why the node is rejected; empty if the pod fits.

    As upstream, all insufficient resources are reported, the other filters stop at the first reason. `backed` resources
    need not be on the node if it has none of them at all.
    """
    node = load.view
    if why := node_reason(pod, node):
        return [why]
    taken = [NO_PORTS] if pod.ports and load.ports.has_conflict(pod.ports) else []
    return taken or shortages(pod, load, backed) or _undeclared(pod, node)


def node_reason(pod: PodView, node: NodeView) -> str:
    """Return why the node is rejected whatever pods it has; empty if it is not."""
    if pod.named_nodes is not None and node.name not in pod.named_nodes:
        return NOT_NAMED
    if node.not_ready and not tolerated(node.not_ready, pod.tolerations):
        return NOT_READY
    if node.unschedulable and not tolerated(UNSCHEDULABLE_TAINT, pod.tolerations):
        return UNSCHEDULABLE
    if node.taints and untolerated(node.taints, pod.tolerations):
        return UNTOLERATED
    if (pod.node_selector or pod.affinity_terms) and not _is_selected(pod, node):
        return NOT_SELECTED
    return ""


def shortages(pod: PodView, load: NodeLoad, backed: frozenset[str] = NOTHING) -> list[str]:
    """Return upstream's texts about resources that the node lacks for the pod; `backed` ones may come from devices."""
    short = node_fit.shortages(pod.requests, load.view.allocatable, load.used, backed)
    return [TOO_MANY if shortage.resource == "pods" else f"{INSUFFICIENT}{shortage.resource}" for shortage in short]


def _undeclared(pod: PodView, node: NodeView) -> list[str]:
    missing = [name for name in pod.features if name not in node.features]
    return [UNDECLARED + ", ".join(missing)] if missing else []


def insufficient(reason: str) -> str | None:
    """Return the resource of which a node has too little by this reason; None for other reasons."""
    if reason == TOO_MANY:
        return "pods"
    return reason.removeprefix(INSUFFICIENT) if reason.startswith(INSUFFICIENT) else None


def _requests_less(pod: PodView, before: PodView) -> bool:
    return any(amount > pod.requests.get(name, 0) for name, amount in before.requests.items())


def _is_selected(pod: PodView, node: NodeView) -> bool:
    return selects_node(pod.node_selector, pod.affinity_terms, node.name, node.labels)


def summary(nodes: int, rejections: Iterable[list[str]]) -> str:
    """Return upstream's message, such as `0/2 nodes are available: 2 node(s) were unschedulable`."""
    if not nodes:
        return "no nodes available to schedule pods"
    counts = Counter(reason for reasons_ in rejections for reason in reasons_)
    return f"0/{nodes} nodes are available: {', '.join(sorted(f'{n} {reason}' for reason, n in counts.items()))}."


class Cache(msgspec.Struct):
    """All nodes and the pods on them, assumed ones included."""

    nodes: dict[str, NodeLoad] = msgspec.field(default_factory=dict)
    placed: dict[str, tuple[str, PodView]] = msgspec.field(default_factory=dict)
    """Node and view of each pod, by uid."""
    unloaded: dict[str, dict[str, None]] = msgspec.field(default_factory=dict)
    """Pods of nodes that are not known, by node."""
    priorities: Counter[int] = msgspec.field(default_factory=Counter)
    """Number of these pods by priority."""
    index: PodIndex = msgspec.field(default_factory=PodIndex)
    """These pods by their labels, and their rules about other pods."""
    images: ImageSpread = msgspec.field(default_factory=ImageSpread)
    memos: NodeMemos = msgspec.field(default_factory=NodeMemos)
    changes: Changes = msgspec.field(default_factory=Changes)
    """Nodes that changed, or had pods placed or removed."""
    soft_tainted: int = 0
    """Nodes with PreferNoSchedule taints."""

    def node(self, view: NodeView) -> bool:
        """Update a node. Return False if no pod fits now that did not: nothing changed, or only its images."""
        known = self.nodes.get(view.name)
        if known and known.view == view:
            return False
        self.changes.mark(view.name)
        self.soft_tainted += bool(view.soft_taints) - bool(known and known.view.soft_taints)
        self.images.remove(known.view.images if known else ())
        self.images.add(view.images)
        self.nodes[view.name] = (
            msgspec.structs.replace(known, view=view, version=next(VERSIONS)) if known else self._loaded(view)
        )
        return known is None or replace(known.view, images=view.images) != view

    def forget_node(self, name: str) -> None:
        if gone := self.nodes.pop(name, None):
            self.images.remove(gone.view.images)
            self.soft_tainted -= bool(gone.view.soft_taints)
            self.changes.mark(name)
            if gone.pods:
                self.unloaded[name] = dict.fromkeys(gone.pods)

    def place(self, node: str, pod: PodView) -> bool:
        """Count a pod that is bound, or assumed to be. Return True if it had more before: it leaves room for others."""
        known = self.placed.get(pod.uid)
        if known == (node, pod):
            return False
        self.forget(pod.uid)
        self.placed[pod.uid] = (node, pod)
        self.priorities[pod.priority] += 1
        self.index.add(pod, node)
        if load := self.nodes.get(node):
            load.count(pod)
            self.changes.mark(node)
        else:
            self.unloaded.setdefault(node, {})[pod.uid] = None
        return known is not None and (known[0] != node or _requests_less(pod, known[1]))

    def forget(self, uid: str) -> bool:
        """Stop counting a pod. Return True if it was counted."""
        held = self.placed.pop(uid, None)
        if held is None:
            return False
        self.priorities[held[1].priority] -= 1
        if not self.priorities[held[1].priority]:
            del self.priorities[held[1].priority]
        self.index.remove(held[1], held[0])
        if load := self.nodes.get(held[0]):
            load.discount(held[1])
            self.changes.mark(held[0])
        elif uids := self.unloaded.get(held[0]):
            uids.pop(uid, None)
            if not uids:
                del self.unloaded[held[0]]
        return True

    async def feasible(
        self, pod: PodView, backed: frozenset[str] = NOTHING
    ) -> tuple[dict[str, NodeLoad], dict[str, list[str]]]:
        """Return the nodes that fit, and the reasons of the others.

        A pod may have 30,000 affinity terms, and there are many nodes: others have their turn after TURN_S.
        """
        fitting: dict[str, NodeLoad] = {}
        rejected: dict[str, list[str]] = {}
        memo, began, turns = self.memos.of(pod.shape, backed), time.perf_counter(), 0
        memo.trim(len(self.nodes))
        for name, load in list(self.nodes.items()):
            known = memo.reasons.get(name)
            if known is None or known[0] != load.version:
                known = memo.reasons[name] = (load.version, reasons(pod, load, backed))
                if time.perf_counter() - began > TURN_S:
                    turns += 1
                    await asyncio.sleep(0)
                    began = time.perf_counter()
            if known[1]:
                rejected[name] = known[1]
            else:
                fitting[name] = load
        return (self._still(fitting) if turns else fitting), rejected

    async def pod_filters(self, pod: PodView) -> PodFilters | None:
        """Return the filters about other pods; None if no placed pod matters. They depend on more than one node."""
        return await pod_filters(pod, self.index, self.nodes)

    async def pod_scores(
        self, pod: PodView, fitting: dict[str, NodeLoad]
    ) -> tuple[dict[str, NodeLoad], PodScores | None]:
        """Return the scores by other pods, None if none matters, with the nodes that are left."""
        if len(fitting) < 2 or not is_scored(pod, self.index):
            return fitting, None
        scores = await PodScores(pod, self.index).count(self.nodes, Turns(TURN_S, 0.0))
        return self._still(fitting), scores

    async def prefer(
        self, pod: PodView, fitting: dict[str, NodeLoad]
    ) -> tuple[dict[str, NodeLoad], dict[str, Preferences]]:
        """Return what the pod prefers of each node, with the nodes that are left; in turns as `feasible`."""
        if not self.has_preferences(pod):
            return fitting, {}
        images = pod.images if self.images.has_any(pod.images) else ()
        preferences: dict[str, Preferences] = {}
        began = time.perf_counter()
        for name, load in fitting.items():
            present = self.images.score(images, load.view.images, len(self.nodes))
            preferences[name] = node_preference(pod, load.view, present)
            if time.perf_counter() - began > TURN_S:
                await asyncio.sleep(0)
                began = time.perf_counter()
        return self._still(fitting), preferences

    def has_preferences(self, pod: PodView) -> bool:
        """Return True if the pod may prefer one node to another for more than its room."""
        return bool(pod.preferred_terms or self.soft_tainted or self.images.has_any(pod.images))

    def _still(self, fitting: dict[str, NodeLoad]) -> dict[str, NodeLoad]:
        """Return those nodes that exist as they were filtered, now that others had their turn."""
        return {name: load for name, load in fitting.items() if self.nodes.get(name) is load}

    def assumed_node(self, uid: str) -> str:
        """Return the existing node that the pod is assumed on, or ""."""
        node = self.placed[uid][0] if uid in self.placed else ""
        return node if node in self.nodes else ""

    def _loaded(self, view: NodeView) -> NodeLoad:
        load = NodeLoad(view)
        for uid in self.unloaded.pop(view.name, ()):
            load.count(self.placed[uid][1])
        return load
