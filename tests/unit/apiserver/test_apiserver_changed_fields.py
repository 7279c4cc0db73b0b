"""The fields of a pod that a request changed, as its step of the trace names them."""

import pytest

from actors.apiserver.api.request.target import Target
from actors.apiserver.api.request.traces import FIELDS, changed_fields
from protocols.kinds.pods.pods import PODS
from protocols.kube.meta import Object
from protocols.messages.health import PodResourceStatus, ResourceHealth, ResourceStatus, health_text

BEFORE: Object = {
    "metadata": {"name": "a", "labels": {"app": "w"}, "resourceVersion": "1"},
    "spec": {"containers": [{"name": "main", "image": "a", "args": ["x"]}], "priority": 1},
}


def changed(metadata: Object, spec: Object, subresource: str = "") -> str:
    after = {"metadata": {**BEFORE["metadata"], **metadata}, "spec": {**BEFORE["spec"], **spec}}
    return changed_fields(Target(PODS, "patch", "default", "a", subresource), BEFORE, after)


@pytest.mark.parametrize(
    ("metadata", "spec", "fields"),
    [
        ({"resourceVersion": "2"}, {}, ""),
        ({"labels": {"app": "w", "mode": "fast"}}, {}, "metadata.labels.mode"),
        ({"labels": {}, "annotations": {"x/y": "1"}}, {}, "metadata.labels.app,metadata.annotations.x/y"),
        ({}, {"containers": [{"name": "main", "image": "b", "args": ["x"]}]}, "spec.containers[main].image"),
        ({}, {"containers": [{"name": "main", "image": "a", "args": ["y"]}]}, "spec.containers[main].args"),
        ({}, {"priority": 2}, "spec.priority"),
    ],
)
def test_changed_fields_are_paths_without_values(metadata: Object, spec: Object, fields: str) -> None:
    assert changed(metadata, spec) == fields


def test_changed_fields_are_bounded_and_not_of_a_status() -> None:
    many = {"labels": {f"l{at}": "x" for at in range(20)}}
    assert changed(many, {}).count(",") == FIELDS
    assert changed(many, {}).endswith(",...")
    assert changed(many, {}, "status") == ""


def test_health_of_a_pod_names_the_devices_that_are_not_healthy() -> None:
    states = [ResourceHealth(f"gpu-{at}", "Unhealthy" if at else "Healthy") for at in range(3)]
    status = PodResourceStatus("u", {"main": (ResourceStatus("example.com/gpu", tuple(states)),)})
    assert health_text(status) == "gpu-1 Unhealthy, gpu-2 Unhealthy"
    assert health_text(None) == "Healthy"
