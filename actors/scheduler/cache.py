"""Nodes with what is promised on them, and pods assumed to be bound before the API says so. Pure.

Invariant: a pod counts on exactly one node, from the moment it is assumed until it is over or gone.
"""

from dataclasses import dataclass, field

from actors.scheduler.fit import NOTHING, explained, reasons
from actors.scheduler.score import best
from actors.scheduler.types import NodeLoad, NodeView, PodView
from actors.scheduler.views import added


@dataclass
class Cache:
    nodes: dict[str, NodeLoad] = field(default_factory=dict)
    placed: dict[str, tuple[str, PodView]] = field(default_factory=dict)
    """Pod uid -> node and what it holds there."""

    def node(self, view: NodeView) -> bool:
        """A node as it is now; False when nothing changed that matters to placement."""
        known = self.nodes.get(view.name)
        if known and known.view == view:
            return False
        self.nodes[view.name] = NodeLoad(view, known.used if known else self._used(view.name))
        return True

    def node_gone(self, name: str) -> None:
        self.nodes.pop(name, None)

    def place(self, node: str, pod: PodView) -> None:
        """The pod holds its requests on `node`: bound, or assumed to be."""
        if self.placed.get(pod.uid) == (node, pod):
            return
        self.forget(pod.uid)
        self.placed[pod.uid] = (node, pod)
        if load := self.nodes.get(node):
            load.used = added(load.used, pod.requests)

    def forget(self, uid: str) -> bool:
        """The pod holds nothing any more; True when it did."""
        held = self.placed.pop(uid, None)
        if held is None:
            return False
        if load := self.nodes.get(held[0]):
            load.used = {name: load.used[name] - held[1].requests.get(name, 0) for name in load.used}
        return True

    def feasible(
        self, pod: PodView, backed: frozenset[str] = NOTHING
    ) -> tuple[dict[str, NodeLoad], dict[str, list[str]]]:
        """Nodes that the pod fits on, and why not of the others."""
        found = {name: reasons(pod, load, backed) for name, load in self.nodes.items()}
        fitting = {name: self.nodes[name] for name, why in found.items() if not why}
        return fitting, {name: why for name, why in found.items() if why}

    def choose(self, pod: PodView) -> tuple[str, str]:
        """(node, "") for the fitting node with most left over, or ("", why none fits)."""
        fitting, refused = self.feasible(pod)
        if not fitting:
            return "", explained(len(refused), refused.values())
        return best(pod, fitting), ""

    def promised(self, uid: str) -> str:
        """The node that was promised to the pod and is still there; empty if none."""
        node = self.placed[uid][0] if uid in self.placed else ""
        return node if node in self.nodes else ""

    def _used(self, node: str) -> dict[str, int]:
        used: dict[str, int] = {}
        for name, pod in self.placed.values():
            if name == node:
                used = added(used, pod.requests)
        return used
