"""Scores by other pods: upstream's figures by example, and against the definitions."""

import math
import random
from collections import Counter
from typing import Any, Final, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.scheduler.affinity.scores import AFFINITY_WEIGHT, HOSTNAME, SPREAD_WEIGHT, ZONE
from actors.scheduler.model.views import node_view, pod_view
from actors.scheduler.nodes.node_cache import Cache
from actors.scheduler.nodes.scoring import NodeScorer
from protocols.kinds import views
from protocols.kube.meta import Object
from tests.support.turns import finished

HARD: Final = "requiredDuringSchedulingIgnoredDuringExecution"
SOFT: Final = "preferredDuringSchedulingIgnoredDuringExecution"
DB = {"app": "db"}


def node(name: str, **labels: str) -> views.Node:
    status = {
        "allocatable": {"pods": "110", "cpu": "64", "memory": "64Gi"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    return cast("views.Node", {"metadata": {"name": name, "labels": {HOSTNAME: name, **labels}}, "status": status})


def in_zones(**zones: str) -> Cache:
    """Nodes by name with their zones; "" for none."""
    cache = Cache()
    for name, zone in zones.items():
        cache.node(node_view(node(name, **({ZONE: zone} if zone else {}))))
    return cache


def pod(name: str, labels: dict[str, str] | None = None, owner: str = "", **spec: Any) -> views.Pod:
    metadata: Object = {"name": name, "namespace": "ns", "uid": name, "labels": labels or {}}
    if owner:
        metadata["ownerReferences"] = [{"kind": "ReplicaSet", "uid": owner, "controller": True}]
    return cast("views.Pod", {"metadata": metadata, "spec": {"containers": [{"name": "c"}], **spec}})


def term(key: str, app: str = "db") -> Object:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def prefers(kind: str, *terms: tuple[int, Object]) -> Object:
    return {"affinity": {kind: {SOFT: [{"weight": weight, "podAffinityTerm": each} for weight, each in terms]}}}


def spread(key: str, skew: int = 1, **more: Any) -> Object:
    selector = {"matchLabels": DB}
    return {
        "topologyKey": key,
        "maxSkew": skew,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": selector,
        **more,
    }


def scores(cache: Cache, made: views.Pod, among: str = "") -> dict[str, int]:
    fitting = {name: load for name, load in cache.nodes.items() if not among or name in among}
    left, found = finished(cache.pod_scores(pod_view(made), fitting))[0]
    assert left == fitting
    return dict.fromkeys(fitting, 0) | found.scores(fitting) if found is not None else {}


def place(cache: Cache, where: str, *made: views.Pod) -> None:
    for each in made:
        cache.place(where, pod_view(each))


def test_pods_are_not_scored_by_others_without_rules_and_controllers() -> None:
    cache = in_zones(a="x", b="y")
    place(cache, "a", pod("one", DB))
    assert scores(cache, pod("p", DB)) == {}
    assert scores(cache, pod("p", DB, **prefers("podAffinity", (1, term(ZONE)))), among="a") == {}


def test_preferred_affinity_and_anti_affinity_sum_up_by_domain() -> None:
    cache = in_zones(a="x", b="x", c="y", d="")
    place(cache, "a", pod("one", DB), pod("two", {"app": "web"}))
    near = prefers("podAffinity", (10, term(ZONE)), (30, term(HOSTNAME, "web")))
    assert scores(cache, pod("p", **near)) == {"a": 200, "b": 50, "c": 0, "d": 0}
    far = prefers("podAntiAffinity", (10, term(ZONE)))
    assert scores(cache, pod("p", **far)) == {"a": 0, "b": 0, "c": 200, "d": 200}


def test_preferences_of_placed_pods_count_for_the_pod_they_select() -> None:
    cache = in_zones(a="x", b="y", c="z")
    place(cache, "a", pod("one", **prefers("podAffinity", (4, term(ZONE)))))
    place(cache, "b", pod("two", affinity={"podAffinity": {HARD: [term(ZONE)]}}))
    assert scores(cache, pod("p", DB)) == {"a": 200, "b": 50, "c": 0}
    assert scores(cache, pod("p", {"app": "web"})) == {"a": 0, "b": 0, "c": 0}
    cache.forget("one")
    place(cache, "c", pod("three", **prefers("podAntiAffinity", (1, term(ZONE)))))
    assert scores(cache, pod("p", DB)) == {"a": 100, "b": 200, "c": 0}


def test_spread_prefers_the_emptier_domains() -> None:
    cache = in_zones(a="x", b="x", c="y", d="")
    place(cache, "a", pod("one", DB), pod("two", DB))
    place(cache, "c", pod("three", DB))
    made = pod("p", DB, topologySpreadConstraints=[spread(ZONE)])
    assert scores(cache, made) == {"a": 66, "b": 66, "c": 200, "d": 0}  # log(4) * (2, 2, 1) is 3, 3, 1
    by_host = pod("p", DB, topologySpreadConstraints=[spread(HOSTNAME)])
    assert scores(cache, by_host) == {"a": 0, "b": 200, "c": 100, "d": 200}


def test_spread_of_an_empty_topology_is_even() -> None:
    cache = in_zones(a="x", b="y")
    assert scores(cache, pod("p", DB, topologySpreadConstraints=[spread(ZONE)])) == {"a": 200, "b": 200}


def test_replicas_spread_by_default_and_others_do_not() -> None:
    cache = in_zones(a="x", b="y")
    place(cache, "a", pod("one", DB, owner="rs"), pod("other", DB, owner="else"))
    found = scores(cache, pod("p", DB, owner="rs"))
    assert found["b"] > found["a"] > 0
    assert scores(cache, pod("p", DB)) == {}
    job = pod("p", DB)
    job["metadata"]["ownerReferences"] = [{"kind": "Job", "uid": "job", "controller": True}]
    assert scores(cache, job) == {}
    hard = spread(ZONE, whenUnsatisfiable="DoNotSchedule")
    assert scores(cache, pod("p", DB, owner="rs", topologySpreadConstraints=[hard])) == {}


def test_scorer_adds_the_scores_by_others() -> None:
    cache = in_zones(a="x", b="y")
    place(cache, "a", pod("one", DB))
    view = pod_view(pod("p", **prefers("podAffinity", (1, term(ZONE)))))
    fitting, others = finished(cache.pod_scores(view, dict(cache.nodes)))[0]
    plain = NodeScorer(view, {}, random.Random(0)).scores(fitting)
    assert NodeScorer(view, {}, random.Random(0), {}, others).scores(fitting) == {
        "a": plain["a"] + 200,
        "b": plain["b"],
    }


# against the definitions

Hosts = dict[str, str]
"""Nodes and their zones."""


def expected_affinity(zones: Hosts, placed: list[tuple[str, views.Pod]], made: views.Pod) -> dict[str, int]:
    sums = dict.fromkeys(zones, 0)
    any_match = False
    for name, zone in zones.items():
        for where, other in placed:
            pairs = [(made, other), (other, made)]
            for (owner, target), hard in zip(pairs, (0, 1), strict=True):
                for weight, each in weighted(owner, hard):
                    if target["metadata"]["labels"].get("app") != each["labelSelector"]["matchLabels"]["app"]:
                        continue
                    near = where == name if each["topologyKey"] == HOSTNAME else bool(zone) and zones[where] == zone
                    sums[name] += weight * near
                    any_match |= each["topologyKey"] == HOSTNAME or bool(zones[where])
    most, least = max(sums.values()), min(sums.values())
    if not any_match or most == least:
        return dict.fromkeys(zones, 0)
    return {name: AFFINITY_WEIGHT * (100 * (each - least) // (most - least)) for name, each in sums.items()}


def weighted(owner: views.Pod, hard: int) -> list[tuple[int, views.PodAffinityTerm]]:
    affinity = owner["spec"].get("affinity") or {}
    near, far = affinity.get("podAffinity") or {}, affinity.get("podAntiAffinity") or {}
    required = [(hard, each) for each in near.get(HARD) or () if hard]
    return [
        *required,
        *((each["weight"], each["podAffinityTerm"]) for each in near.get(SOFT) or ()),
        *((-each["weight"], each["podAffinityTerm"]) for each in far.get(SOFT) or ()),
    ]


def expected_spread(zones: Hosts, placed: list[tuple[str, views.Pod]], made: views.Pod) -> dict[str, int]:
    soft = made["spec"].get("topologySpreadConstraints") or ()
    scored = [name for name in zones if zones[name] or all(each["topologyKey"] == HOSTNAME for each in soft)]
    if not soft:
        return dict.fromkeys(zones, 0)
    raw = dict.fromkeys(scored, 0.0)
    for each in soft:
        by_host = each["topologyKey"] == HOSTNAME
        domain = {name: name if by_host else zones[name] for name in zones}
        pods = Counter(
            domain[where]
            for where, other in placed
            if other["metadata"]["labels"] == DB and (by_host or where in scored)
        )
        weight = math.log(len({domain[name] for name in scored}) + 2)
        for name in scored:
            raw[name] += pods[domain[name]] * weight + each["maxSkew"] - 1
    sums = {name: math.floor(each + 0.5) for name, each in raw.items()}
    least, most = min(sums.values(), default=0), max(sums.values(), default=0)
    found = {name: 100 * (most + least - each) // most if most else 100 for name, each in sums.items()}
    return {name: SPREAD_WEIGHT * found.get(name, 0) for name in zones}


KEYS = st.sampled_from((HOSTNAME, ZONE))
TERMS = st.lists(st.tuples(st.integers(1, 100), st.builds(term, KEYS, st.sampled_from(("db", "web")))), max_size=2)
KINDS = st.sampled_from(("podAffinity", "podAntiAffinity"))


@st.composite
def pods(draw: st.DrawFn) -> views.Pod:
    spec = draw(st.one_of(st.just({}), st.builds(lambda kind, terms: prefers(kind, *terms), KINDS, TERMS)))
    if draw(st.integers(0, 3)) == 0:
        spec = {"affinity": {"podAffinity": {HARD: [term(draw(KEYS))]}}}
    return pod("", draw(st.sampled_from((DB, DB, {"app": "web"}, {}))), **spec)


@given(
    st.lists(st.sampled_from(("x", "y", "z", "")), min_size=2, max_size=5),
    st.lists(st.tuples(st.integers(0, 4), pods()), max_size=8),
    pods(),
    st.lists(st.builds(spread, KEYS, st.integers(1, 5)), max_size=2, unique_by=lambda each: each["topologyKey"]),
)
def test_scores_equal_the_definitions(
    drawn: list[str], others: list[tuple[int, views.Pod]], made: views.Pod, soft: list[views.TopologySpreadConstraint]
) -> None:
    zones = {f"n{at}": zone for at, zone in enumerate(drawn)}
    cache, placed = in_zones(**zones), list[tuple[str, views.Pod]]()
    for number, (at, other) in enumerate(others):
        metadata: views.ObjectMeta = {**other["metadata"], "name": f"p{number}", "uid": f"p{number}"}
        named: views.Pod = {**other, "metadata": metadata}
        placed.append((f"n{at % len(zones)}", named))
        place(cache, placed[-1][0], named)
    spec: views.PodSpec = {**made["spec"], "topologySpreadConstraints": soft}
    waiting: views.Pod = {**made, "spec": spec}
    affinity, spreading = expected_affinity(zones, placed, waiting), expected_spread(zones, placed, waiting)
    found = scores(cache, waiting) or dict.fromkeys(zones, 0)
    assert found == {name: affinity[name] + spreading[name] for name in zones}


@pytest.mark.parametrize("zone", ["x", ""])
def test_default_spread_of_many_replicas_is_even(zone: str) -> None:
    cache = in_zones(**dict.fromkeys(("a", "b", "c"), zone))
    for number in range(9):
        view = pod_view(pod(f"p{number}", DB, owner="rs"))
        fitting, others = finished(cache.pod_scores(view, dict(cache.nodes)))[0]
        cache.place(NodeScorer(view, {}, random.Random(number), {}, others).best(fitting), view)
    assert Counter(where for where, _ in cache.placed.values()) == dict.fromkeys("abc", 3)
