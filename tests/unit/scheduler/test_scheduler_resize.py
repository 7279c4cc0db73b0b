"""Pods that are resized: what they count on their node meanwhile."""

from typing import Any, cast

import pytest

from protocols.kinds import views
from protocols.kube.quantity import NANO
from protocols.scheduling.requests import pod_requests, with_resize


def asking(cpu: str) -> list[dict[str, Any]]:
    return [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]


def counted(asks: str, allocated: str, has: str, reason: str = "") -> int:
    """Return the cpus that a pod of one container counts."""
    status: dict[str, Any] = {
        "containerStatuses": [
            {"name": "c", "allocatedResources": {"cpu": allocated}, "resources": {"requests": {"cpu": has}}}
        ],
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}] if reason else [],
    }
    pod = cast("views.Pod", {"spec": {"containers": asking(asks)}, "status": status})
    return pod_requests(with_resize(pod, pod["spec"]))["cpu"] // NANO


@pytest.mark.parametrize(
    ("asks", "allocated", "has", "reason", "cpus"),
    [
        ("2", "2", "2", "", 2),
        ("1", "2", "2", "", 2),  # its node has not seen the resize yet
        ("1", "1", "2", "", 2),  # the runtime has not done it yet
        ("1", "1", "1", "", 1),
        ("2", "1", "1", "Deferred", 2),
        ("9", "1", "1", "Infeasible", 1),
        ("9", "1", "2", "Infeasible", 2),
        ("1", "1000m", "1000m", "", 1),
    ],
)
def test_pod_counts_the_most_of_what_it_asks_was_allocated_and_has(
    asks: str, allocated: str, has: str, reason: str, cpus: int
) -> None:
    assert counted(asks, allocated, has, reason) == cpus


def test_sidecar_that_shrinks_counts_what_it_has() -> None:
    sidecar = {**asking("1")[0], "restartPolicy": "Always"}
    status = {"initContainerStatuses": [{"name": "c", "allocatedResources": {"cpu": "3"}}]}
    pod = cast("views.Pod", {"spec": {"containers": asking("1"), "initContainers": [sidecar]}, "status": status})
    assert pod_requests(with_resize(pod, pod["spec"]))["cpu"] == 4 * NANO
