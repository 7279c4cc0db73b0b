"""What one pod may cost the scheduler: linear in the pod, with turns for others between nodes."""

from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.scheduler.model.claim_demand import DemandBuilder
from actors.scheduler.model.errors import ClaimsNotReady
from actors.scheduler.model.views import node_view, pod_view
from actors.scheduler.nodes import node_cache
from actors.scheduler.nodes.node_cache import Cache
from protocols.dra.allocator.catalog import Catalog
from protocols.dra.allocator.extended import MAX_REQUESTS, TooManyRequests, extended_claim
from protocols.kinds import views
from protocols.kube.quantity import NANO
from protocols.scheduling.requests import pod_requests
from tests.support.growth import MOST, growth
from tests.support.turns import finished


def pod(name: str = "p", **spec: Any) -> views.Pod:
    return {"metadata": {"name": name, "namespace": "ns", "uid": name}, "spec": cast("views.PodSpec", spec)}


def container(**requests: int) -> views.Container:
    return {"name": "c", "resources": {"requests": {name: str(amount) for name, amount in requests.items()}}}


def node(name: str) -> views.Node:
    status: views.NodeStatus = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"pods": "110"}}
    return {"metadata": {"name": name, "labels": {}}, "spec": {}, "status": status}


def named(part: str) -> Callable[[int], Callable[[], object]]:
    def prepare(size: int) -> Callable[[], object]:
        spec: Any = {part: [container(**{f"r{number}": 1}) for number in range(size)]}
        return lambda: pod_requests(spec)

    return prepare


@pytest.mark.parametrize("part", ["containers", "initContainers"])
def test_pod_requests_of_containers_with_resources_of_their_own_are_linear(part: str) -> None:
    assert growth(named(part), 500) < MOST


REQUESTS = st.dictionaries(st.sampled_from("abc"), st.integers(0, 9), max_size=2)


@given(st.lists(st.tuples(REQUESTS, st.booleans()), max_size=5), st.lists(REQUESTS, max_size=4))
def test_pod_requests_are_the_peak_of_the_pods_life(inits: list[tuple[dict[str, int], bool]], apps: Any) -> None:
    always: views.Container = {"restartPolicy": "Always"}
    first = [container(**own) | always if stays else container(**own) for own, stays in inits]
    found = pod_requests({"initContainers": first, "containers": [container(**own) for own in apps]})
    for name in "abc":
        running = peak = 0
        for own, stays in inits:
            peak = max(peak, running + own.get(name, 0))
            running += own.get(name, 0) if stays else 0
        peak = max(peak, running + sum(own.get(name, 0) for own in apps))
        assert found.get(name, 0) == peak * NANO


def test_cache_resources_of_pods_that_left_are_forgotten() -> None:
    cache = Cache()
    cache.node(node_view(node("n")))
    for number in range(5):
        cache.place("n", pod_view(pod(f"p{number}", containers=[container(**{f"r{number}": 1})])))
    assert len(cache.nodes["n"].used) == 6
    for number in range(5):
        cache.forget(f"p{number}")
    assert cache.nodes["n"].used == {}


def nodes_after_their_pods(size: int) -> Callable[[], object]:
    views = [node_view(node(f"n{number}")) for number in range(size)]
    pods = [pod_view(pod(f"p{number}")) for number in range(size)]

    def work() -> None:
        cache = Cache()
        for at, each in enumerate(pods):
            cache.place(f"n{at}", each)
        for view in views:
            cache.node(view)
        assert all(len(load.pods) == 1 for load in cache.nodes.values())
        assert not cache.unloaded

    return work


def test_nodes_that_are_known_after_their_pods_are_linear() -> None:
    assert growth(nodes_after_their_pods, 1_000) < MOST


def test_cache_pods_of_a_node_that_went_count_when_it_is_back() -> None:
    cache = Cache()
    cache.node(node_view(node("n")))
    for name in "abc":
        cache.place("n", pod_view(pod(name)))
    cache.forget_node("n")
    cache.forget("a")
    cache.place("m", pod_view(pod("b")))
    cache.node(node_view(node("n")))
    assert list(cache.nodes["n"].pods) == ["c"]
    cache.forget("b")
    assert cache.unloaded == {}


def test_feasible_yields_between_nodes_that_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_cache, "TURN_S", 0.0)
    cache = Cache()
    for number in range(5):
        cache.node(node_view(node(f"n{number}")))
    assert finished(cache.feasible(pod_view(pod())))[1] == 5


def test_feasible_leaves_out_a_node_that_changed_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_cache, "TURN_S", 0.0)
    cache = Cache()
    for name in ("n1", "n2"):
        cache.node(node_view(node(name)))
    task = cache.feasible(pod_view(pod()))
    task.send(None)
    cache.forget_node("n1")
    task.send(None)
    with pytest.raises(StopIteration) as end:
        task.send(None)
    assert list(end.value.value[0]) == ["n2"]


def entries(size: int) -> Callable[[], object]:
    owner: views.OwnerReference = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p", "controller": True}
    claim: views.ResourceClaim = {
        "metadata": {"name": "c", "namespace": "ns", "uid": "c", "ownerReferences": [owner]},
        "spec": {},
    }
    made = pod(resourceClaims=[{"name": f"e{number}", "resourceClaimTemplateName": "t"} for number in range(size)])
    statuses: list[views.PodResourceClaimStatus] = [
        {"name": f"e{number}", "resourceClaimName": "c"} for number in range(size)
    ]
    made["status"] = {"resourceClaimStatuses": statuses}
    builder = DemandBuilder({"ns/c": claim}.get, lambda uid: False, {}, Catalog(), True)
    return lambda: builder.demand(made)


def test_demand_of_many_claim_entries_is_linear() -> None:
    assert growth(entries, 250) < MOST


def test_demand_of_a_claim_made_for_another_pod_is_refused() -> None:
    claim: views.ResourceClaim = {"metadata": {"name": "c", "namespace": "ns", "uid": "c"}, "spec": {}}
    made = pod(resourceClaims=[{"name": "e", "resourceClaimTemplateName": "t"}])
    made["status"] = {"resourceClaimStatuses": [{"name": "e", "resourceClaimName": "c"}]}
    with pytest.raises(ClaimsNotReady, match="was not created for Pod"):
        DemandBuilder({"ns/c": claim}.get, lambda uid: False, {}, Catalog(), True).demand(made)


GPU = "example.com/gpu"


def gpus(apps: int, inits: int) -> views.Pod:
    return pod(containers=[container(**{GPU: 1})] * apps, initContainers=[container(**{GPU: 1})] * inits)


def test_extended_claim_of_more_containers_than_requests_is_refused() -> None:
    assert len(extended_claim(gpus(MAX_REQUESTS, 0), frozenset((GPU,)), {GPU: "gpu"}).claim.requests) == MAX_REQUESTS
    with pytest.raises(TooManyRequests, match="need 33 requests"):
        extended_claim(gpus(MAX_REQUESTS + 1, 0), frozenset((GPU,)), {GPU: "gpu"})


def test_requests_of_all_extended_resources_share_the_limit_of_the_claim() -> None:
    other = "example.com/fpga"
    both = frozenset((GPU, other))
    with pytest.raises(TooManyRequests, match="need 40 requests"):
        extended_claim(pod(containers=[container(**{GPU: 1, other: 1})] * 20), both, {GPU: "gpu", other: "fpga"})
    larger_init = pod(
        containers=[container(**{GPU: 1})] * MAX_REQUESTS, initContainers=[container(**{GPU: MAX_REQUESTS + 1})]
    )
    with pytest.raises(TooManyRequests, match="need 33 requests"):
        extended_claim(larger_init, frozenset((GPU,)), {GPU: "gpu"})


def test_extended_claim_of_many_init_containers_is_linear() -> None:
    def prepare(size: int) -> Callable[[], object]:
        made = gpus(1, size)
        return lambda: extended_claim(made, frozenset((GPU,)), {GPU: "gpu"})

    assert growth(prepare, 250) < MOST
