"""Scores of nodes: upstream's figures, and pods that spread."""

import random
from collections import Counter
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from actors.scheduler.model.views import PodView, node_view, pod_view
from actors.scheduler.nodes.node_cache import Cache
from actors.scheduler.nodes.scoring import (
    INDIFFERENT,
    NodeScorer,
    Preferences,
    balanced_allocation_score,
    least_allocated_score,
)
from protocols.kinds import views
from tests.support.turns import finished

SOFT = {"key": "slow", "value": "", "effect": "PreferNoSchedule"}


def node(name: str, cpu: str = "4", memory: str = "10000", **spec: Any) -> views.Node:
    status = {
        "allocatable": {"cpu": cpu, "memory": memory, "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    return cast("views.Node", {"metadata": {"name": name, "labels": {"zone": name}}, "spec": spec, "status": status})


def pod(name: str = "p", *requests: dict[str, str], **spec: Any) -> PodView:
    containers = [{"name": f"c{at}", "resources": {"requests": each}} for at, each in enumerate(requests or ({},))]
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return pod_view(cast("views.Pod", {"metadata": metadata, "spec": {"containers": containers, **spec}}))


def cache_of(*nodes: views.Node) -> Cache:
    cache = Cache()
    for item in nodes:
        cache.node(node_view(item))
    return cache


def scorer(view: PodView, cache: Cache) -> NodeScorer:
    preferences = finished(cache.prefer(view, dict(cache.nodes)))[0][1]
    return NodeScorer(view, preferences, random.Random(0))


def test_least_allocated_score_gives_upstreams_figures() -> None:
    """((4000-3000)*100/4000 + (10000-5000)*100/10000) / 2, and the same on a larger node."""
    cache = cache_of(node("n1"), node("n2", cpu="6"), {"metadata": {"name": "bare"}})
    asked = pod("p", {"cpu": "1", "memory": "2000"}, {"cpu": "2", "memory": "3000"})
    assert least_allocated_score(asked, cache.nodes["n1"]) == 37
    assert least_allocated_score(asked, cache.nodes["n2"]) == 50
    assert least_allocated_score(asked, cache.nodes["bare"]) == 0


def test_balanced_allocation_score_rewards_a_pod_that_restores_the_balance() -> None:
    cache = cache_of(node("even"), node("cpu"), {"metadata": {"name": "bare"}})
    cache.place("cpu", pod("a", {"cpu": "2", "memory": "0"}))
    memory = pod("p", {"cpu": "0", "memory": "5000"})
    assert balanced_allocation_score(memory, cache.nodes["cpu"]) == 87  # 50 + (50 + 100 - 75) / 2
    assert balanced_allocation_score(memory, cache.nodes["even"]) == 62  # 50 + (50 + 75 - 100) / 2
    assert balanced_allocation_score(pod(), cache.nodes["cpu"]) == 75
    assert balanced_allocation_score(memory, cache.nodes["bare"]) == 75


def test_pods_without_requests_spread_over_equal_nodes() -> None:
    cache = cache_of(*(node(f"n{at}", memory="8Gi") for at in range(4)))
    for at in range(40):
        view = pod(f"p{at}")
        cache.place(scorer(view, cache).best(cache.nodes), view)
    spread = Counter(name for name, _ in cache.placed.values())
    assert spread == dict.fromkeys(cache.nodes, 10)


def test_equal_nodes_are_drawn_by_the_seed() -> None:
    fitting = cache_of(*(node(f"n{at}") for at in range(8))).nodes
    drawn = [NodeScorer(pod(), {}, dice) for dice in (random.Random(7), random.Random(7))]
    first, again = ([each.best(fitting) for _ in range(50)] for each in drawn)
    assert first == again
    assert len(set(first)) == 8


def test_preferred_affinity_outweighs_free_capacity() -> None:
    cache = cache_of(node("n1"), node("n2"), node("n3"))
    cache.place("n2", pod("a", {"cpu": "2", "memory": "5000"}))
    terms = [
        {"weight": weight, "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}}
        for weight, zone in ((100, "n2"), (25, "n3"))
    ]
    terms.append({"weight": 100, "preference": {}})  # an empty term matches nothing
    view = pod(affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}})
    chosen = scorer(view, cache)
    assert chosen.preferences == {"n1": INDIFFERENT, "n2": Preferences(100), "n3": Preferences(25)}
    assert chosen.best(cache.nodes) == "n2"


def test_untolerated_soft_taints_are_avoided() -> None:
    cache = cache_of(node("n1", taints=[SOFT]), node("n2"))
    cache.place("n2", pod("a", {"cpu": "2", "memory": "5000"}))
    assert scorer(pod(), cache).best(cache.nodes) == "n2"
    tolerant = pod(tolerations=[{"key": "slow", "operator": "Exists"}])
    assert scorer(tolerant, cache).best(cache.nodes) == "n1"


def test_prefer_without_preferences_costs_no_pass() -> None:
    cache = cache_of(node("n1"), node("n2", taints=[{**SOFT, "effect": "NoSchedule"}]))
    assert scorer(pod(), cache).preferences == {}


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4000), st.integers(0, 10000)), max_size=12), st.data())
def test_load_of_a_node_is_the_sum_of_its_pods(placed: list[tuple[int, int, int]], data: st.DataObject) -> None:
    cache = cache_of(node("n0"), node("n1"))
    views = [pod(f"p{at}", {"cpu": f"{cpu}m", "memory": str(memory)}, {}) for at, (_, cpu, memory) in enumerate(placed)]
    for view, (where, _, _) in zip(views, placed, strict=True):
        cache.place(f"n{where % 2}", view)
    gone = data.draw(st.lists(st.sampled_from(views), unique_by=lambda view: view.uid)) if views else []
    for view in gone:
        cache.forget(view.uid)
    fresh = Cache()
    for where_now, view in cache.placed.values():
        fresh.place(where_now, view)
    for load in cache.nodes.values():
        fresh.node(load.view)
        same = fresh.nodes[load.view.name]
        for had, has in ((load.used, same.used), (load.presumed, same.presumed)):
            assert {name: had.get(name, 0) for name in has} == has
            assert not any(amount for name, amount in had.items() if name not in has)
        asked = pod("q", {"cpu": "100m"})
        assert 0 <= least_allocated_score(asked, load) <= 100
        assert 0 <= balanced_allocation_score(asked, load) <= 100


def with_images(name: str, **sizes: int) -> views.Node:
    found = node(name)
    found["status"]["images"] = [{"names": [f"{image}:latest"], "sizeBytes": size} for image, size in sizes.items()]
    return found


def test_a_node_with_the_pods_images_is_preferred_by_their_size_and_spread() -> None:
    """Upstream's figures: 100 * (size * nodes with it / nodes - 23 MiB) / (1000 MiB * containers - 23 MiB)."""
    mebibyte = 2**20
    cache = cache_of(with_images("n1", x=250 * mebibyte), with_images("n2", x=250 * mebibyte, y=20 * mebibyte))
    view = pod_view({"metadata": {"uid": "u", "name": "p"}, "spec": {"containers": [{"image": "x"}]}})
    assert scorer(view, cache).preferences == {"n1": Preferences(images=23), "n2": Preferences(images=23)}
    cache.node(node_view(with_images("n1")))
    assert scorer(view, cache).preferences == {"n1": INDIFFERENT, "n2": Preferences(images=10)}
    assert scorer(view, cache).best(cache.nodes) == "n2"
    small = pod_view({"metadata": {"uid": "u", "name": "p"}, "spec": {"containers": [{"image": "y:latest"}]}})
    assert scorer(small, cache).preferences == {"n1": INDIFFERENT, "n2": INDIFFERENT}
    cache.forget_node("n2")
    assert scorer(view, cache).preferences == {}


def test_images_of_init_containers_and_volumes_count_with_registries_ports() -> None:
    spec: views.PodSpec = {
        "initContainers": [{"image": "r:5000/a"}],
        "containers": [{"image": "r:5000/b:1"}, {"image": "c@sha256:00"}, {}],
        "volumes": [{"name": "v", "image": {"reference": "d"}}, {"name": "w", "emptyDir": {}}],
    }
    view = pod_view({"metadata": {"uid": "u", "name": "p"}, "spec": spec})
    assert view.images == ("r:5000/a:latest", "r:5000/b:1", "c@sha256:00", "d:latest")
