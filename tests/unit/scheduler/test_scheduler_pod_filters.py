"""Inter-pod affinity and topology spread: each rule by example, all together against their definitions."""

import copy
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.scheduler.affinity import filters as filters_module
from actors.scheduler.affinity.inter_pod import AFFINITY, ANTI_AFFINITY, EXISTING_ANTI_AFFINITY
from actors.scheduler.affinity.spread import SPREAD, SPREAD_LABEL
from actors.scheduler.model.pod_terms import MAX_PARTS, MAX_TERMS, NO_RULES
from actors.scheduler.model.views import node_view, pod_view
from actors.scheduler.nodes.node_cache import Cache
from protocols.kinds import views
from protocols.kinds.pods.defaults import merge_label_keys
from protocols.kube.meta import Object, name_of
from tests.support import pod_rules_oracle as oracle
from tests.support.growth import MOST, growth
from tests.support.turns import finished

HARD = "requiredDuringSchedulingIgnoredDuringExecution"
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def node(name: str, labels: dict[str, str] | None = None, tainted: bool = False) -> views.Node:
    taints = [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}] if tainted else []
    status = {"allocatable": {"pods": "110"}, "conditions": [{"type": "Ready", "status": "True"}]}
    return cast(
        "views.Node", {"metadata": {"name": name, "labels": labels or {}}, "spec": {"taints": taints}, "status": status}
    )


def zoned(name: str, zone: str) -> views.Node:
    return node(name, {HOST: name, ZONE: zone})


def pod(name: str, labels: dict[str, str] | None = None, namespace: str = "ns", **spec: Any) -> views.Pod:
    metadata = {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}", "labels": labels or {}}
    return cast("views.Pod", {"metadata": metadata, "spec": {"containers": [{"name": "c"}], **spec}})


def term(app: str = "db", key: str = HOST, **more: Any) -> Object:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}


def near(*terms: Object) -> Object:
    return {"affinity": {"podAffinity": {HARD: list(terms)}}}


def far(*terms: Object) -> Object:
    return {"affinity": {"podAntiAffinity": {HARD: list(terms)}}}


def spread(app: str = "db", key: str = ZONE, skew: int = 1, **more: Any) -> Object:
    selector = {"matchLabels": {"app": app}}
    return {
        "topologyKey": key,
        "maxSkew": skew,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
        **more,
    }


class World:
    def __init__(self, *nodes: views.Node) -> None:
        self.cache, self.nodes, self.placed = Cache(), {name_of(each): each for each in nodes}, oracle.Placed()
        for each in nodes:
            self.cache.node(node_view(each))

    def place(self, made: views.Pod, where: str) -> None:
        self.cache.place(where, pod_view(made))
        self.placed.append((made, self.nodes[where]))

    def reasons(self, made: views.Pod) -> dict[str, str]:
        """Return why each node is rejected; empty if it is not."""
        filters = finished(self.cache.pod_filters(pod_view(made)))[0]
        return {
            name: filters.reason(load.view) if filters is not None else "" for name, load in self.cache.nodes.items()
        }


DB = {"app": "db"}


def test_anti_affinity_rejects_the_domain_of_a_match() -> None:
    world = World(zoned("a", "east"), zoned("b", "east"), zoned("c", "west"))
    world.place(pod("one", DB), "a")
    assert world.reasons(pod("two", DB, **far(term()))) == {"a": ANTI_AFFINITY, "b": "", "c": ""}
    assert world.reasons(pod("two", DB, **far(term(key=ZONE)))) == {"a": ANTI_AFFINITY, "b": ANTI_AFFINITY, "c": ""}
    assert world.reasons(pod("two", DB, **far(term(key="rack")))) == dict.fromkeys("abc", "")


def test_anti_affinity_of_a_placed_pod_rejects_others() -> None:
    world = World(zoned("a", "east"), zoned("b", "west"))
    world.place(pod("one", {"app": "cache"}, **far(term())), "a")
    assert world.reasons(pod("two", DB)) == {"a": EXISTING_ANTI_AFFINITY, "b": ""}
    assert world.reasons(pod("two", {"app": "web"})) == {"a": "", "b": ""}
    world.cache.forget("ns-one")
    assert world.reasons(pod("two", DB)) == {"a": "", "b": ""}


def test_affinity_wants_one_pod_that_matches_all_terms_in_each_domain() -> None:
    world = World(zoned("a", "east"), zoned("b", "east"), zoned("c", "west"), node("d"))
    world.place(pod("one", {"app": "db", "tier": "x"}), "a")
    world.place(pod("two", {"app": "db"}), "c")
    both = near(term(), {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"tier": "x"}}})
    assert world.reasons(pod("p", **both)) == {"a": "", "b": AFFINITY, "c": AFFINITY, "d": AFFINITY}
    zone = near(term(key=ZONE))
    assert world.reasons(pod("p", **zone)) == {"a": "", "b": "", "c": "", "d": AFFINITY}


def test_affinity_lets_the_first_of_a_group_go_where_the_labels_are() -> None:
    world = World(zoned("a", "east"), node("b"))
    assert world.reasons(pod("p", DB, **near(term()))) == {"a": "", "b": AFFINITY}
    assert world.reasons(pod("p", {"app": "web"}, **near(term()))) == {"a": AFFINITY, "b": AFFINITY}
    world.place(pod("one", DB), "b")
    assert world.reasons(pod("p", DB, **near(term())))["a"] == "", "its domain is unknown, so it is nobody's neighbour"


def test_terms_select_namespaces_by_name_and_label() -> None:
    world = World(zoned("a", "east"))
    world.cache.index.namespaces.update({"ns": {}, "other": {"team": "x"}})
    world.place(pod("one", DB, "other"), "a")
    for more, expected in (
        ({}, ""),
        ({"namespaces": ["other"]}, ANTI_AFFINITY),
        ({"namespaces": ["ns"]}, ""),
        ({"namespaceSelector": {}}, ANTI_AFFINITY),
        ({"namespaceSelector": {"matchLabels": {"team": "x"}}}, ANTI_AFFINITY),
        ({"namespaceSelector": {"matchLabels": {"team": "y"}}}, ""),
        ({"namespaceSelector": {"matchLabels": {"team": "y"}}, "namespaces": ["other"]}, ANTI_AFFINITY),
    ):
        assert world.reasons(pod("p", **far(term(**more)))) == {"a": expected}, more


def test_term_without_selector_matches_no_pod_and_an_empty_one_each() -> None:
    world = World(zoned("a", "east"))
    world.place(pod("one", DB), "a")
    assert world.reasons(pod("p", **far({"topologyKey": HOST}))) == {"a": ""}
    assert world.reasons(pod("p", **far({"topologyKey": HOST, "labelSelector": {}}))) == {"a": ANTI_AFFINITY}


def test_match_label_keys_take_the_pods_own_values() -> None:
    world = World(zoned("a", "east"))
    world.place(pod("one", {"app": "db", "hash": "1"}), "a")
    for key, value, expected in (
        ("matchLabelKeys", "1", ANTI_AFFINITY),
        ("matchLabelKeys", "2", ""),
        ("mismatchLabelKeys", "1", ""),
        ("mismatchLabelKeys", "2", ANTI_AFFINITY),
    ):
        made = pod("p", {"app": "db", "hash": value}, **far(term() | {key: ["hash", "absent"]}))
        merge_label_keys(cast(Object, made))
        assert world.reasons(made) == {"a": expected}, (key, value)


def test_spread_compares_with_the_emptiest_domain() -> None:
    world = World(zoned("a", "east"), zoned("b", "west"), node("c", {HOST: "c"}))
    world.place(pod("one", DB), "a")
    made = pod("two", DB, topologySpreadConstraints=[spread()])
    assert world.reasons(made) == {"a": SPREAD, "b": "", "c": SPREAD_LABEL}
    assert world.reasons(pod("two", DB, topologySpreadConstraints=[spread(skew=2)]))["a"] == ""
    assert world.reasons(pod("two", topologySpreadConstraints=[spread()]))["a"] == "", "it does not select itself"


def test_spread_without_a_removed_pod_compares_with_its_domain() -> None:
    world = World(zoned("a", "east"), zoned("b", "west"))
    world.place(pod("one", DB), "a")
    world.place(pod("two", DB), "b")
    filters = finished(world.cache.pod_filters(pod_view(pod("p", DB, topologySpreadConstraints=[spread()]))))[0]
    views = [node_view(each) for each in world.nodes.values()]
    assert [filters.reason(view) for view in views] == ["", ""]
    copy = filters.copy()
    filters.remove(pod_view(pod("two", DB)), views[1])
    assert [filters.reason(view) for view in views] == [SPREAD, ""]
    assert [copy.reason(view) for view in views] == ["", ""]


def test_spread_min_domains_count_missing_ones_as_empty() -> None:
    world = World(zoned("a", "east"), zoned("b", "west"))
    world.place(pod("one", DB), "a")
    world.place(pod("two", DB), "b")
    assert world.reasons(pod("p", DB, topologySpreadConstraints=[spread(minDomains=2)])) == {"a": "", "b": ""}
    assert world.reasons(pod("p", DB, topologySpreadConstraints=[spread(minDomains=3)])) == {"a": SPREAD, "b": SPREAD}


def test_spread_counts_no_terminating_pods_and_no_other_namespace() -> None:
    world = World(zoned("a", "east"), zoned("b", "west"))
    leaving = pod("one", DB)
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    world.place(leaving, "a")
    world.place(pod("two", DB, "other"), "a")
    assert world.reasons(pod("p", DB, topologySpreadConstraints=[spread()])) == {"a": "", "b": ""}


def test_spread_with_an_empty_selector_counts_nobody() -> None:
    world = World(zoned("a", "east"), zoned("b", "west"))
    for name in ("one", "two"):
        world.place(pod(name, DB), "a")
    empty: list[Object] = [{}, {"matchLabels": {}}]
    for selector in empty:
        constraint = spread(labelSelector=selector)
        assert world.reasons(pod("p", DB, topologySpreadConstraints=[constraint])) == {"a": "", "b": ""}


@pytest.mark.parametrize(
    ("policies", "a"),
    [
        ({}, SPREAD),
        ({"nodeTaintsPolicy": "Honor"}, ""),
        ({"nodeTaintsPolicy": "Ignore"}, SPREAD),
    ],
)
def test_spread_policies_say_which_nodes_are_domains(policies: dict[str, Any], a: str) -> None:
    world = World(zoned("a", "east"), node("b", {HOST: "b", ZONE: "west"}, tainted=True))
    world.place(pod("one", DB), "a")
    assert world.reasons(pod("p", DB, topologySpreadConstraints=[spread(**policies)]))["a"] == a
    chosen: dict[str, Any] = {"nodeSelector": {ZONE: "east"}}
    assert world.reasons(pod("p", DB, topologySpreadConstraints=[spread()], **chosen))["a"] == ""
    ignoring = [spread(nodeAffinityPolicy="Ignore")]
    assert world.reasons(pod("p", DB, topologySpreadConstraints=ignoring, **chosen))["a"] == SPREAD


def test_filters_are_none_where_no_placed_pod_matters() -> None:
    world = World(zoned("a", "east"))
    assert pod_view(pod("p")).rules is NO_RULES
    assert finished(world.cache.pod_filters(pod_view(pod("p")))) == (None, 0)
    world.place(pod("one", **far(term("web"))), "a")
    assert finished(world.cache.pod_filters(pod_view(pod("p"))))[0] is None


# all together

KEYS, VALUES = ("zone", "rack"), ("1", "2")
APPS = st.fixed_dictionaries({}, optional={"app": st.sampled_from("ab"), "hash": st.sampled_from("12")})
EXPRESSION = st.one_of(
    st.builds(
        lambda operator, values: {"key": "app", "operator": operator, "values": values},
        st.sampled_from(("In", "NotIn")),
        st.lists(st.sampled_from("abc"), min_size=1, max_size=2, unique=True),
    ),
    st.builds(lambda operator: {"key": "app", "operator": operator}, st.sampled_from(("Exists", "DoesNotExist"))),
)
SELECTOR = st.one_of(
    st.none(),
    st.just({}),
    st.builds(lambda app: {"matchLabels": {"app": app}}, st.sampled_from("ab")),
    st.builds(lambda each: {"matchExpressions": [each]}, EXPRESSION),
)
TEAM = st.builds(lambda team: {"matchLabels": {"team": team}}, st.sampled_from("xy"))
OWN = {name: st.just(["hash"]) for name in ("matchLabelKeys", "mismatchLabelKeys")}
SPACES = {
    "namespaces": st.lists(st.sampled_from(("ns", "other")), max_size=2, unique=True),
    "namespaceSelector": st.one_of(st.just({}), TEAM),
}
TERM = st.fixed_dictionaries(
    {"topologyKey": st.sampled_from(KEYS), "labelSelector": SELECTOR}, optional={**OWN, **SPACES}
).map(lambda each: each if each["labelSelector"] is not None else {k: v for k, v in each.items() if k not in OWN})
CONSTRAINT = st.fixed_dictionaries(
    {
        "topologyKey": st.sampled_from(KEYS),
        "labelSelector": SELECTOR,
        "maxSkew": st.integers(1, 2),
        "whenUnsatisfiable": st.sampled_from(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")),
    },
    optional={
        "minDomains": st.integers(1, 3),
        "nodeAffinityPolicy": st.sampled_from(("Honor", "Ignore")),
        "nodeTaintsPolicy": st.sampled_from(("Honor", "Ignore")),
        "matchLabelKeys": st.just(["hash"]),
    },
).map(lambda each: each if each["labelSelector"] is not None else {k: v for k, v in each.items() if k not in OWN})
TERMS = st.lists(TERM, max_size=2)


@st.composite
def pods(draw: st.DrawFn) -> views.Pod:
    spec: dict[str, Any] = {"affinity": {"podAffinity": {HARD: draw(TERMS)}, "podAntiAffinity": {HARD: draw(TERMS)}}}
    spec["topologySpreadConstraints"] = draw(st.lists(CONSTRAINT, max_size=2))
    if draw(st.booleans()):
        spec["nodeSelector"] = {"zone": draw(st.sampled_from(VALUES))}
    if draw(st.booleans()):
        spec["tolerations"] = [{"operator": "Exists"}]
    made = copy.deepcopy(pod("", draw(APPS), draw(st.sampled_from(("ns", "other"))), **spec))
    merge_label_keys(cast(Object, made))
    if draw(st.integers(0, 5)) == 0:
        made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return made


NODE_LABELS = st.fixed_dictionaries({}, optional={key: st.sampled_from(VALUES) for key in KEYS})


def named(made: views.Pod, name: str) -> views.Pod:
    metadata: views.ObjectMeta = {**made["metadata"], "name": name, "uid": name}
    return {**made, "metadata": metadata}


SIMPLE = st.builds(
    lambda key, skew, more: spread("a", key, skew, **more),
    st.sampled_from(KEYS),
    st.integers(1, 2),
    st.fixed_dictionaries({}, optional={"minDomains": st.integers(2, 3)}),
)
LABELLED = st.fixed_dictionaries({key: st.sampled_from(VALUES) for key in KEYS})


@st.composite
def alike(draw: st.DrawFn) -> views.Pod:
    """Return a pod of the namespace with one simple rule, so that few worlds are decided by a missing label."""
    terms = st.sampled_from(KEYS).map(lambda key: term("a", key))
    rules = st.one_of(
        SIMPLE.map(lambda each: {"topologySpreadConstraints": [each]}), *(terms.map(kind) for kind in (near, far))
    )
    return pod("", {"app": draw(st.sampled_from("aaab"))}, **draw(st.one_of(st.just({}), rules, rules)))


@st.composite
def worlds(draw: st.DrawFn) -> tuple[World, views.Pod, set[str]]:
    """Return a world, a pod that waits, and some of the placed pods."""
    simple = draw(st.booleans())
    of_nodes, of_pods = (LABELLED, alike()) if simple else (NODE_LABELS, pods())
    nodes = [node(f"n{at}", draw(of_nodes), draw(st.booleans())) for at in range(draw(st.integers(1 + simple, 4)))]
    world = World(*nodes)
    world.cache.index.namespaces.update({"ns": {"team": "x"}, "other": {}})
    for at, made in enumerate(draw(st.lists(of_pods, min_size=4 * simple, max_size=6))):
        world.place(named(made, f"p{at}"), f"n{draw(st.integers(0, len(nodes) - 1))}")
    waiting = named(draw(of_pods), "new")
    waiting["metadata"].pop("deletionTimestamp", None)
    gone = {name_of(made) for made, _ in world.placed if draw(st.booleans())}
    return world, waiting, gone


@given(worlds())
def test_filters_equal_the_definitions(drawn: tuple[World, views.Pod, set[str]]) -> None:
    world, waiting, gone = drawn
    spaces = {name: dict(labels) for name, labels in world.cache.index.namespaces.items()}
    nodes = list(world.nodes.values())
    found = world.reasons(waiting)
    for each in nodes:
        assert found[name_of(each)] == oracle.reason(waiting, each, nodes, world.placed, spaces)
    left = [at for at in world.placed if name_of(at[0]) not in gone]
    filters = finished(world.cache.pod_filters(pod_view(waiting)))[0]
    if filters is not None:
        assert {name_of(each): filters.reason(node_view(each)) for each in nodes} == found
        for made, where in world.placed:
            if name_of(made) in gone:
                filters.remove(pod_view(made), node_view(where))
    for each in nodes:
        why = filters.reason(node_view(each)) if filters is not None else ""
        assert why == oracle.reason(waiting, each, nodes, left, spaces), "as if some pods were removed"
    for uid in gone:
        world.cache.forget(uid)
    assert world.reasons(waiting) == {
        name_of(each): oracle.reason(waiting, each, nodes, left, spaces) for each in nodes
    }, "after they left"


@given(worlds())
def test_index_is_empty_after_the_last_pod(drawn: tuple[World, views.Pod, set[str]]) -> None:
    world, _, _ = drawn
    for made, _ in world.placed:
        world.cache.forget(name_of(made))
    index = world.cache.index
    assert (len(index.anti_affinity), len(index.preferences), index._groups) == (0, 0, {})


# bounds


def test_pod_with_too_many_terms_has_a_fault_and_counts_its_requests() -> None:
    many = pod("p", **far(*(term(str(number)) for number in range(MAX_TERMS + 1))))
    view = pod_view(many)
    assert f"has {MAX_TERMS + 1} pod affinity terms" in view.rules.fault
    assert view.requests["pods"] > 0
    values = [str(number) for number in range(MAX_PARTS)]
    long = {"matchExpressions": [{"key": "app", "operator": "In", "values": values}]}
    assert f"have {MAX_PARTS + 1} parts" in pod_view(pod("p", **far(term(labelSelector=long)))).rules.fault


def test_counts_are_linear_in_pods() -> None:
    def prepare(size: int) -> Any:
        world = World(*(zoned(f"n{at}", "east") for at in range(8)))
        for at in range(size):
            made = pod(f"p{at}", {"app": "db", "name": str(at)}, **far(term()))
            world.cache.place(f"n{at % 8}", pod_view(made))
        waiting = pod("p", DB, topologySpreadConstraints=[spread()], **far(term(key=ZONE)))
        return lambda: world.reasons(waiting)

    assert growth(prepare, 500) < MOST


def test_counting_yields_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filters_module, "TURN_S", 0.0)
    world = World(zoned("a", "east"))
    for at in range(3):
        world.place(pod(f"p{at}", {"app": str(at)}, **far(term(str(at)))), "a")
    assert finished(world.cache.pod_filters(pod_view(pod("p", {"app": "1"}))))[1] >= 3
