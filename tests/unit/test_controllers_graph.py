"""Who owns whom: random worlds, random deletions; what the collector would do is done until nothing is left to do."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from actors.controllers.garbage.graph import (
    FOREGROUND,
    ORPHAN,
    Delete,
    Disown,
    Graph,
    Owner,
    State,
    Thing,
    decide,
    thing_of,
)
from actors.controllers.lifecycle.pod_gc import WAIT_S, Strays
from protocols.kube.resources import CONFIGMAPS, NODES, PODS

POLICIES = ("Background", "Foreground", "Orphan")


def owner(uid: str, blocks: bool = True) -> Owner:
    return Owner("v1", "ConfigMap", f"c{uid}", uid, blocks)


def thing(uid: str, *owners: str) -> Thing:
    return Thing(CONFIGMAPS, "default", f"c{uid}", uid, tuple(map(owner, owners)))


class World:
    """An API server of one kind, and the graph that follows it."""

    def __init__(self, things: list[Thing]) -> None:
        self.objects = {each.uid: each for each in things}
        self.graph = Graph()
        self.dirty = [uid for each in things for uid in self.graph.put(each)]
        self.parents = {each.uid: {o.uid for o in each.owners} for each in things}
        self.asked: set[str] = set()

    def delete(self, uid: str, policy: str) -> None:
        finalizer = {"Foreground": FOREGROUND, "Orphan": ORPHAN}.get(policy)
        if uid not in self.objects:
            return
        held = frozenset((finalizer,)) if finalizer else frozenset[str]()
        self.store(replace(self.objects[uid], terminating=True, finalizers=held))

    def store(self, changed: Thing) -> None:
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
        states = [self.graph.standing(found, each) or self.ask(each) for each in found.owners]
        match decide(found, states, bool(self.graph.children(uid))):
            case Delete(policy):
                assert not any(self.lives(each.uid) for each in found.owners), "a living owner"
                self.delete(uid, policy)
            case Disown(uids):
                assert not any(self.lives(gone) for gone in uids), "a living owner was forgotten"
                self.disown(found, uids)

    def end(self, found: Thing) -> None:
        if ORPHAN in found.finalizers:
            for child in self.graph.children(found.uid):
                self.disown(self.objects[child.uid], frozenset((found.uid,)))
            self.store(replace(found, finalizers=found.finalizers - {ORPHAN}))
        elif found.waiting and not self.graph.blocked(found.uid):
            self.store(replace(found, finalizers=found.finalizers - {FOREGROUND}))

    def ask(self, wanted: Owner) -> State:
        found = self.objects.get(wanted.uid)
        return State.ABSENT if found is None else State.WAITING if found.waiting else State.LIVING

    def disown(self, found: Thing, uids: frozenset[str]) -> None:
        self.store(replace(found, owners=tuple(each for each in found.owners if each.uid not in uids)))

    def lives(self, uid: str) -> bool:
        return uid in self.objects and not self.objects[uid].waiting


@st.composite
def worlds(draw: st.DrawFn) -> World:
    size = draw(st.integers(1, 9))
    uids = [str(number) for number in range(size)]
    return World([thing(uid, *draw(st.sets(st.sampled_from([*uids, "lost"]), max_size=3))) for uid in uids])


@given(worlds(), st.lists(st.tuples(st.integers(0, 8).map(str), st.sampled_from(POLICIES)), max_size=6), st.booleans())
def test_nothing_with_a_living_owner_goes_and_all_others_do(
    world: World, deletions: list[tuple[str, str]], between: bool
) -> None:
    for uid, policy in deletions:
        world.delete(uid, policy)
        if between:
            world.settle()
    world.settle()
    for left in world.objects.values():
        assert not left.terminating, "an end that never came"
        assert not left.owners or all(each.uid in world.objects for each in left.owners)


def test_the_foreground_waits_for_those_that_block_and_no_others() -> None:
    world = World([thing("1"), thing("2", "1")])
    world.store(replace(world.objects["2"], owners=(owner("1", blocks=True),), finalizers=frozenset(("held",))))
    world.delete("1", "Foreground")
    assert world.graph.blocked("1")
    world.store(replace(world.objects["2"], owners=(owner("1", blocks=False),)))
    assert not world.graph.blocked("1")


def test_owners_that_cannot_be_followed_count_as_living() -> None:
    graph = Graph()
    node = Thing(NODES, "", "n", "u", (owner("x"),))
    assert graph.standing(node, node.owners[0]) is State.LIVING
    replicas = Owner("apps/v1", "ReplicaSet", "r", "x")
    assert graph.standing(thing("1"), replicas) is State.LIVING


def test_another_uid_or_namespace_is_another_object() -> None:
    graph = Graph()
    graph.put(thing("1"))
    assert graph.standing(thing("2"), owner("1")) is State.LIVING
    assert graph.standing(thing("2"), owner("other")) is None
    assert graph.standing(replace(thing("2"), namespace="elsewhere"), owner("1")) is None
    assert graph.standing(thing("2"), Owner("v1", "Secret", "c1", "1")) is None


def test_a_renewal_costs_no_look() -> None:
    graph = Graph()
    assert graph.put(thing("1", "2")) == {"1"}
    assert graph.put(thing("1", "2")) == set()


def test_malformed_references_do_not_stop_the_others() -> None:
    obj = {"metadata": {"name": "p", "uid": "u", "ownerReferences": [{"uid": None}]}}
    assert thing_of(PODS, obj).owners == (Owner("", "", "", ""),)


def test_pods_wait_a_minute_for_their_node() -> None:
    strays = Strays()
    assert strays.pause(0.0) is None
    strays.missing("n", 10.0)
    strays.missing("n", 50.0)
    assert strays.due(10.0 + WAIT_S - 1) == []
    assert strays.pause(11.0) == WAIT_S - 1
    assert strays.due(10.0 + WAIT_S) == ["n"]
    strays.back("n")
    assert strays.due(1e9) == []
