"""Graph of owner references. Pure: callers put objects in and get back the uids that need to be checked.

An owner missing from the graph may still exist because watches lag; only a live read proves that it is absent.
"""

from collections.abc import Iterator, Sequence
from enum import Enum

import msgspec

from actors.controllers.common.kinds import Kinds
from protocols.kinds import views
from protocols.kinds.table import Resource
from protocols.kube.meta import Object, meta, name_of, namespace_of, terminating, uid_of

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"


class OwnerState(Enum):
    """State of an owner, as the graph or a live read shows it."""

    LIVING = "living"
    WAITING = "waiting"
    """Deleted in the foreground: it waits for its dependents."""
    ABSENT = "absent"


class OwnerNode(msgspec.Struct, frozen=True):
    """An owner reference; `blocks` has the meaning of blockOwnerDeletion."""

    api_version: str
    kind: str
    name: str
    uid: str
    blocks: bool = False


class GraphNode(msgspec.Struct, frozen=True):
    """The identity, owners and finalizers of an object."""

    resource: Resource
    namespace: str
    name: str
    uid: str
    owners: tuple[OwnerNode, ...] = ()
    finalizers: frozenset[str] = frozenset()
    terminating: bool = False

    @property
    def waiting(self) -> bool:
        return self.terminating and FOREGROUND in self.finalizers


class Delete(msgspec.Struct, frozen=True):
    """Decision: delete the object with this propagation policy."""

    policy: str


class RemoveOwners(msgspec.Struct, frozen=True):
    """Remove these owner references; another owner is living."""

    uids: frozenset[str]


def graph_node(resource: Resource, obj: Object) -> GraphNode:
    """Return the parts of an object that garbage collection needs."""
    metadata = meta(obj)
    return GraphNode(
        resource,
        namespace_of(obj),
        name_of(obj),
        uid_of(obj),
        tuple(map(_owner, metadata.get("ownerReferences") or ())),
        frozenset(metadata.get("finalizers") or ()),
        terminating(obj),
    )


def _owner(reference: views.OwnerReference) -> OwnerNode:
    version, kind = str(reference.get("apiVersion") or ""), str(reference.get("kind") or "")
    name, uid = str(reference.get("name") or ""), str(reference.get("uid") or "")
    return OwnerNode(version, kind, name, uid, bool(reference.get("blockOwnerDeletion")))


def can_follow(node: GraphNode, resource: Resource | None) -> bool:
    """Return False for a kind that is not served, and for a namespaced owner of a cluster-scoped object."""
    return resource is not None and (bool(node.namespace) or not resource.namespaced)


def decide(node: GraphNode, states: Sequence[OwnerState], has_children: bool) -> Delete | RemoveOwners | None:
    """Return what to do with a node whose owners are in `states`, in the order of `node.owners`."""
    if not node.owners or node.terminating:
        return None
    if OwnerState.LIVING in states:
        gone = frozenset(o.uid for o, state in zip(node.owners, states, strict=True) if state is not OwnerState.LIVING)
        return RemoveOwners(gone) if gone else None
    if (OwnerState.WAITING in states and has_children) or FOREGROUND in node.finalizers:
        return Delete("Foreground")
    return Delete("Orphan" if ORPHAN in node.finalizers else "Background")


class Graph:
    """Nodes by uid, with the edges from owners to dependents."""

    def __init__(self, kinds: Kinds | None = None) -> None:
        self._kinds = kinds or Kinds()
        self.nodes: dict[str, GraphNode] = {}
        self._children: dict[str, set[str]] = {}

    def put(self, node: GraphNode) -> set[str]:
        """Add or replace a node; return the uids to check."""
        old = self.nodes.get(node.uid)
        if old == node:
            return set()
        self._unlink(old)
        self.nodes[node.uid] = node
        for owner in node.owners:
            self._children.setdefault(owner.uid, set()).add(node.uid)
        touched = {node.uid} | self._waiting_owners(node) | (self._waiting_owners(old) if old else set())
        return touched | (self._children.get(node.uid, set()) if node.terminating else set())

    def remove(self, uid: str) -> set[str]:
        """Remove a node; return the uids to check: its dependents and the owners that waited for it."""
        old = self.nodes.pop(uid, None)
        self._unlink(old)
        return set(self._children.get(uid, ())) | (self._waiting_owners(old) if old else set())

    def children(self, uid: str) -> list[GraphNode]:
        return [self.nodes[child] for child in self._children.get(uid, ()) if child in self.nodes]

    def resource_of(self, owner: OwnerNode) -> Resource | None:
        """Return the owner's resource; None for a kind that is not served."""
        return self._kinds.find(owner.api_version, owner.kind)

    def owned_by_kind(self, resource: Resource) -> set[str]:
        """Return the uids of nodes that name an owner of this kind."""
        nodes = self.nodes.values()
        return {node.uid for node in nodes if any(self.resource_of(owner) == resource for owner in node.owners)}

    def owner_state(self, node: GraphNode, owner: OwnerNode) -> OwnerState | None:
        """Return the owner's state; None when only the API knows."""
        resource = self.resource_of(owner)
        if not can_follow(node, resource):
            return OwnerState.LIVING
        parent = self.nodes.get(owner.uid)
        if parent is None or (parent.resource, parent.name) != (resource, owner.name):
            return None
        if parent.namespace and parent.namespace != node.namespace:
            return None
        return OwnerState.WAITING if parent.waiting else OwnerState.LIVING

    def misplaced(self, node: GraphNode) -> list[OwnerNode]:
        """Return the owner references with the uid of an object in another namespace, where none is looked for."""
        parents = ((owner, self.nodes.get(owner.uid)) for owner in node.owners)
        return [owner for owner, parent in parents if parent and parent.namespace not in ("", node.namespace)]

    def blocked(self, uid: str) -> bool:
        """Return True while a foreground deletion must wait for a dependent. A cycle of owners blocks nothing."""
        waiters: set[str] | None = None
        for child in self._blockers(uid):
            node = self.nodes[child]
            if child != uid and not node.waiting:
                return True
            waiters = self._waiters(uid) if waiters is None else waiters
            if child not in waiters:
                return True
        return False

    def _blockers(self, uid: str) -> Iterator[str]:
        for child in self._children.get(uid, ()):
            node = self.nodes.get(child)
            if node is not None and any(owner.uid == uid and owner.blocks for owner in node.owners):
                yield child

    def _waiters(self, goal: str) -> set[str]:
        """Return `goal` and every node that waits for it, directly or through others."""
        waiters, ahead = {goal}, [goal]
        while ahead:
            node = self.nodes.get(ahead.pop())
            for owner in node.owners if node is not None else ():
                above = self.nodes.get(owner.uid)
                if owner.blocks and owner.uid not in waiters and above is not None and above.waiting:
                    waiters.add(owner.uid)
                    ahead.append(owner.uid)
        return waiters

    def _waiting_owners(self, node: GraphNode) -> set[str]:
        owners = (self.nodes.get(owner.uid) for owner in node.owners)
        return {owner.uid for owner in owners if owner is not None and owner.terminating}

    def _unlink(self, node: GraphNode | None) -> None:
        for owner in node.owners if node else ():
            children = self._children.get(owner.uid)
            if node and children:
                children.discard(node.uid)
                if not children:
                    del self._children[owner.uid]
