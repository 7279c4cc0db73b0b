"""The promises of the resized profile about commits, each with some that keep it and a last one that breaks it."""

from typing import Any

import pytest

from protocols.kube.meta import Object
from tests.simulation.plane.resized import judged, known_room
from tests.unit.simulation.test_simulation_workloads import Change, meta, written

LIMITED = ("resourcequotas", "cpus", {"status": {"hard": {"requests.cpu": "14"}}})


def pod(name: str, wanted: str, allocated: str = "", node: str = "", **condition: Any) -> Object:
    spec = {"nodeName": node, "containers": [{"resources": {"requests": {"cpu": wanted}}}]}
    shown = [{"allocatedResources": {"cpu": allocated}}] if allocated else []
    return {**meta(name), "spec": spec, "status": {"containerStatuses": shown, "conditions": [condition]}}


@pytest.mark.parametrize(
    ("promise", "changes"),
    [
        ("a quota is not exceeded", [
            LIMITED, ("pods", "a", pod("a", "6")), ("pods", "b", pod("b", "6")), ("pods", "a", pod("a", "9")),
        ]),
        ("a node has room for its pods", [
            ("pods", "a", pod("a", "1", "4", node="n1")), *(("configmaps", str(number), {}) for number in range(20)),
            ("pods", "b", pod("b", "4", node="n1")),
        ]),
    ],
)  # fmt: skip
def test_last_commit_breaks_a_promise(promise: str, changes: list[Change]) -> None:
    assert promise not in [broken.promise for broken in judged(written(changes[:-1], "default"))]
    assert promise in [broken.promise for broken in judged(written(changes, "default"))]


def test_infeasible_resize_takes_no_room() -> None:
    pending = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    large = pod("a", "7500m", "1", node="n1", **pending)
    assert not list(judged(written([("pods", "a", large), ("pods", "b", pod("b", "4", node="n1"))], "default")))


def test_placement_leaves_room_for_what_is_shown_as_allocated() -> None:
    held, smaller = {"default/a": pod("a", "1", "4", node="n1")}, {"default/a": pod("a", "1", node="n1")}
    assert list(known_room(pod("b", "4"), "n1", held, held))
    assert not list(known_room(pod("b", "4"), "n1", held, smaller))
