"""Resources of a whole pod: they bound those of its containers, and default to them."""

from typing import Any

import pytest

from tests.support.pod_faults import faults, pod

Object = dict[str, Any]


def sized(**resources: Any) -> Object:
    return {"resources": resources}


CPU = sized(limits={"cpu": "2"})
HUGE = sized(limits={"cpu": "2", "hugepages-2Mi": "4Mi"})


@pytest.mark.parametrize(
    ("container", "spec", "found"),
    [
        (CPU, {**CPU, "os": {"name": "windows"}}, ["Forbidden resources"]),
        ({}, sized(claims=[{"name": "k"}]), ["Forbidden resources.claims"]),
        ({}, sized(limits={"ephemeral-storage": "1"}), ["NotSupported resources.limits[ephemeral-storage]"]),
        ({}, sized(limits={"example.com/a": "1"}), ["NotSupported resources.limits[example.com/a]"]),
        ({}, sized(limits={"nope": "1"}), ["Invalid resources.limits[nope]"]),
        ({}, sized(limits={"cpu": "1"}, requests={"cpu": "2"}), ["Invalid resources.requests"]),
        (sized(requests={"cpu": "2"}), sized(requests={"cpu": "1"}), ["Invalid resources.requests[cpu]"]),
        (
            CPU,
            sized(limits={"cpu": "1"}),
            ["Invalid resources.requests", "Invalid resources.containers[0][cpu].limits"],
        ),
        (HUGE, sized(limits={"cpu": "3", "hugepages-2Mi": "8Mi"}), []),
        (
            {},
            {**sized(requests={"cpu": "1"}), "initContainers": [{"name": "i", "image": "i", **CPU}]},
            ["Invalid resources.requests[cpu]"],
        ),
    ],
)
def test_resources_of_a_pod_cover_those_of_its_containers(container: Object, spec: Object, found: list[str]) -> None:
    assert faults(container, **spec) == found


@pytest.mark.parametrize(
    ("spec", "whole"),
    [
        (
            sized(limits={"cpu": "3"}),
            sized(limits={"cpu": "3", "hugepages-2Mi": "4Mi"}, requests={"cpu": "2", "hugepages-2Mi": "4Mi"}),
        ),
        (
            sized(limits={"memory": "1Gi"}, requests={"hugepages-2Mi": "8Mi"}),
            sized(limits={"memory": "1Gi"}, requests={"cpu": "2", "memory": "1Gi", "hugepages-2Mi": "8Mi"}),
        ),
        (
            sized(limits={"a.b/c": "1"}),
            sized(limits={"a.b/c": "1", "hugepages-2Mi": "4Mi"}, requests={"cpu": "2", "hugepages-2Mi": "4Mi"}),
        ),
        ({"resources": {}}, {"resources": {}}),
    ],
)
def test_resources_of_a_pod_default_to_those_of_its_containers(spec: Object, whole: Object) -> None:
    assert pod(HUGE, **spec)["spec"]["resources"] == whole["resources"]
