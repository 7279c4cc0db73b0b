"""Extended resources backed by a class: which class, which requests, which container uses what."""

from typing import Any, cast

from actors.scheduler.model.views import pod_view
from protocols.dra.allocator.extended import backed, backing, extended_claim
from protocols.dra.decode import class_of
from protocols.kinds import views
from protocols.kube.resource_names import DEVICE_CLASS

GPU = "example.com/gpu"


def kind(name: str, created: str = "2026-01-01T00:00:00Z", resource: str = GPU) -> Any:
    return class_of(
        {"metadata": {"name": name, "creationTimestamp": created}, "spec": {"extendedResourceName": resource}}
    )


def container(name: str, gpus: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"limits": {GPU: str(gpus), "cpu": "1"}}, **more}


def pod(*containers: Any, init: tuple[Any, ...] = ()) -> views.Pod:
    metadata = {"name": "p", "namespace": "ns", "uid": "u"}
    return cast(
        "views.Pod", {"metadata": metadata, "spec": {"containers": list(containers), "initContainers": list(init)}}
    )


def requests(*containers: Any, init: tuple[Any, ...] = ()) -> dict[str, int]:
    claim = extended_claim(pod(*containers, init=init), frozenset((GPU,)), {GPU: "gpu"}).claim
    return {request.name: request.subrequests[0].count for request in claim.requests}


def mappings(*containers: Any, init: tuple[Any, ...] = ()) -> set[tuple[str, str]]:
    made = extended_claim(pod(*containers, init=init), frozenset((GPU,)), {GPU: "gpu"})
    return {(mapping.container, mapping.request) for mapping in made.mappings}


def test_the_newest_class_counts_and_the_smaller_name_of_equals() -> None:
    old, new = kind("a"), kind("b", "2026-01-02T00:00:00Z")
    assert backing([new, old])[GPU] == "b"
    assert backing([kind("d"), kind("c")])[GPU] == "c"
    assert backing([kind("c"), kind("d")])[GPU] == "c"
    assert backing([kind("x", resource="")]) == {f"{DEVICE_CLASS}x": "x"}


def test_only_what_is_asked_for_and_has_a_class_is_backed() -> None:
    requested = pod_view(pod(container("a", 1))).requests
    assert backed(requested, {GPU: "gpu", "example.com/nic": "nic"}) == {GPU}
    assert backed(pod_view(pod(container("a", 0))).requests, {GPU: "gpu"}) == frozenset()


def test_each_container_that_stays_has_a_request_of_its_own() -> None:
    sidecar = container("s", 1, restartPolicy="Always")
    assert requests(container("a", 2), container("b", 1), init=(sidecar,)) == {
        "container-0-request-1": 1,
        "container-1-request-1": 2,
        "container-2-request-1": 1,
    }


def test_requests_are_in_the_order_of_their_names() -> None:
    nic = {"name": "n", "resources": {"limits": {"example.com/a-nic": "1"}}}
    resources = {GPU: "gpu", "example.com/a-nic": "nic"}
    made = extended_claim(pod(container("a", 1), nic), frozenset(resources), resources)
    assert [request.name for request in made.claim.requests] == ["container-0-request-1", "container-1-request-0"]


def test_an_init_container_uses_what_comes_later_and_only_the_rest_is_extra() -> None:
    first, second = container("i", 4), container("j", 3)
    assert requests(container("a", 2), init=(first, second)) == {"container-2-request-1": 2, "container-0-request-1": 2}
    assert mappings(container("a", 2), init=(first, second)) == {
        ("a", "container-2-request-1"),
        ("i", "container-2-request-1"),
        ("i", "container-0-request-1"),
        ("j", "container-2-request-1"),
        ("j", "container-0-request-1"),
    }
    assert requests(container("a", 2), init=(container("i", 1),)) == {"container-1-request-1": 2}


def test_a_sidecar_that_runs_already_lends_nothing() -> None:
    sidecar, later = container("s", 2, restartPolicy="Always"), container("i", 1)
    assert requests(container("a", 0), init=(sidecar, later)) == {
        "container-0-request-1": 2,
        "container-1-request-1": 1,
    }
