"""A whole plane whose runtime events are falsified by `nodeplane chaos runtime`: pods still come to the right end."""

import pytest

from tests.support.plane import Plane, until
from tests.support.shared_fixtures import whole_plane

FAULT = "drop-events"
"""The others are the simulation's."""


def pod(name: str, *command: str) -> dict[str, object]:
    container = {"name": "main", "image": "busybox", "command": list(command)}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 30, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def note(plane: Plane, actor: str) -> str:
    return str((plane.status()[actor].get("beat") or {}).get("note"))


plane = whole_plane


@pytest.mark.scenario("S13")
@pytest.mark.timeout(240)
def test_pods_under_a_fault(plane: Plane) -> None:
    """Also S13: deletion of a running pod takes no longer than its process, whatever becomes of the events."""
    until("evented", lambda: "evented" in note(plane, "pleg"))
    plane.chaos("runtime", FAULT)
    until("said", lambda: f"chaos: {FAULT}" in note(plane, "cri"))
    plane.apply(pod("ends", "sh", "-c", "sleep 1; exit 4"))
    plane.apply(pod("stays", "sleep", "1000"))
    status = plane.pod_phase("ends", "Failed")["status"]["containerStatuses"][0]
    assert status["state"]["terminated"]["exitCode"] == 4
    assert status["restartCount"] == 0
    plane.pod_phase("stays", "Running")
    plane.delete("pod", "stays", timeout=25)
    until("pod gone", lambda: not plane.get("pod", "stays"))
    plane.chaos("runtime", "clear")
    until("no longer said", lambda: "chaos" not in note(plane, "cri"))


@pytest.mark.parametrize("arguments", [["explode"], ["drop-events", "--count", "-1"]])
def test_an_order_that_makes_no_sense_is_refused_in_one_line(plane: Plane, arguments: list[str]) -> None:
    with pytest.raises(AssertionError, match="ended with 2"):
        plane.nodeplane("chaos", "runtime", *arguments)
