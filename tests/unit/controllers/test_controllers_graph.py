"""Owner graph: random objects and deletions, with the collector's decisions applied until none is left."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from actors.controllers.garbage.graph import (
    FOREGROUND,
    ORPHAN,
    Delete,
    Graph,
    GraphNode,
    OwnerNode,
    OwnerState,
    RemoveOwners,
    decide,
    graph_node,
)
from actors.controllers.lifecycle.pod_gc import WAIT_S, MissingNodes
from protocols.kinds.table import CONFIGMAPS, NODES, PODS

POLICIES = ("Background", "Foreground", "Orphan")


def owner(uid: str, blocks: bool = True) -> OwnerNode:
    return OwnerNode("v1", "ConfigMap", f"c{uid}", uid, blocks)


def thing(uid: str, *owners: str) -> GraphNode:
    return GraphNode(CONFIGMAPS, "default", f"c{uid}", uid, tuple(map(owner, owners)))


class World:
    """An API server of one kind, and the graph that follows it."""

    def __init__(self, nodes: list[GraphNode]) -> None:
        self.objects = {node.uid: node for node in nodes}
        self.graph = Graph()
        self.dirty = [uid for node in nodes for uid in self.graph.put(node)]
        self.parents = {node.uid: {o.uid for o in node.owners} for node in nodes}
        self.asked: set[str] = set()

    def delete(self, uid: str, policy: str) -> None:
        finalizer = {"Foreground": FOREGROUND, "Orphan": ORPHAN}.get(policy)
        if uid not in self.objects:
            return
        held = frozenset((finalizer,)) if finalizer else frozenset[str]()
        self.store(replace(self.objects[uid], terminating=True, finalizers=held))

    def store(self, changed: GraphNode) -> None:
        if changed.terminating and not changed.finalizers:
            del self.objects[changed.uid]
            self.dirty += self.graph.remove(changed.uid)
        else:
            self.objects[changed.uid] = changed
            self.dirty += self.graph.put(changed)

    def settle(self) -> None:
        for _ in range(10_000):
            if not self.dirty:
                return
            self.step(self.dirty.pop(0))
        raise AssertionError("it never settles")

    def step(self, uid: str) -> None:
        found = self.objects.get(uid)
        if found is None:
            return
        if found.terminating:
            self.end(found)
            return
        states = [self.graph.owner_state(found, each) or self.ask(each) for each in found.owners]
        match decide(found, states, bool(self.graph.children(uid))):
            case Delete(policy):
                assert not any(self.lives(each.uid) for each in found.owners), "a living owner"
                self.delete(uid, policy)
            case RemoveOwners(uids):
                assert not any(self.lives(gone) for gone in uids), "a living owner was forgotten"
                self.disown(found, uids)

    def end(self, found: GraphNode) -> None:
        if ORPHAN in found.finalizers:
            for child in self.graph.children(found.uid):
                self.disown(self.objects[child.uid], frozenset((found.uid,)))
            self.store(replace(found, finalizers=found.finalizers - {ORPHAN}))
        elif found.waiting and not self.graph.blocked(found.uid):
            self.store(replace(found, finalizers=found.finalizers - {FOREGROUND}))

    def ask(self, wanted: OwnerNode) -> OwnerState:
        found = self.objects.get(wanted.uid)
        return OwnerState.ABSENT if found is None else OwnerState.WAITING if found.waiting else OwnerState.LIVING

    def disown(self, found: GraphNode, uids: frozenset[str]) -> None:
        self.store(replace(found, owners=tuple(each for each in found.owners if each.uid not in uids)))

    def lives(self, uid: str) -> bool:
        return uid in self.objects and not self.objects[uid].waiting


@st.composite
def worlds(draw: st.DrawFn) -> World:
    size = draw(st.integers(1, 9))
    uids = [str(number) for number in range(size)]
    return World([thing(uid, *draw(st.sets(st.sampled_from([*uids, "lost"]), max_size=3))) for uid in uids])


@given(worlds(), st.lists(st.tuples(st.integers(0, 8).map(str), st.sampled_from(POLICIES)), max_size=6), st.booleans())
def test_only_objects_with_living_owner_remain(world: World, deletions: list[tuple[str, str]], between: bool) -> None:
    for uid, policy in deletions:
        world.delete(uid, policy)
        if between:
            world.settle()
    world.settle()
    for left in world.objects.values():
        assert not left.terminating, "an end that never came"
        assert not left.owners or all(each.uid in world.objects for each in left.owners)


def test_foreground_deletion_waits_only_for_blocking_dependents() -> None:
    world = World([thing("1"), thing("2", "1")])
    world.store(replace(world.objects["2"], owners=(owner("1", blocks=True),), finalizers=frozenset(("held",))))
    world.delete("1", "Foreground")
    assert world.graph.blocked("1")
    world.store(replace(world.objects["2"], owners=(owner("1", blocks=False),)))
    assert not world.graph.blocked("1")


def test_owner_of_unserved_kind_counts_as_living() -> None:
    graph = Graph()
    node = GraphNode(NODES, "", "n", "u", (owner("x"),))
    assert graph.owner_state(node, node.owners[0]) is OwnerState.LIVING
    scaler = OwnerNode("example.com/v1", "Scaler", "r", "x")
    assert graph.owner_state(thing("1"), scaler) is OwnerState.LIVING


def test_owner_with_other_uid_or_namespace_is_unknown() -> None:
    graph = Graph()
    graph.put(thing("1"))
    assert graph.owner_state(thing("2"), owner("1")) is OwnerState.LIVING
    assert graph.owner_state(thing("2"), owner("other")) is None
    assert graph.owner_state(replace(thing("2"), namespace="elsewhere"), owner("1")) is None
    assert graph.owner_state(thing("2"), OwnerNode("v1", "Secret", "c1", "1")) is None


def test_unchanged_node_enqueues_nothing() -> None:
    graph = Graph()
    assert graph.put(thing("1", "2")) == {"1"}
    assert graph.put(thing("1", "2")) == set()


def test_malformed_owner_reference_is_tolerated() -> None:
    obj = {"metadata": {"name": "p", "uid": "u", "ownerReferences": [{"uid": None}]}}
    assert graph_node(PODS, obj).owners == (OwnerNode("", "", "", ""),)


def test_missing_node_is_due_after_wait() -> None:
    missing_nodes = MissingNodes()
    assert missing_nodes.pause(0.0) is None
    missing_nodes.missing("n", 10.0)
    missing_nodes.missing("n", 50.0)
    assert missing_nodes.due(10.0 + WAIT_S - 1) == []
    assert missing_nodes.pause(11.0) == WAIT_S - 1
    assert missing_nodes.due(10.0 + WAIT_S) == ["n"]
    missing_nodes.back("n")
    assert missing_nodes.due(1e9) == []
