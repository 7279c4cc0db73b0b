"""Subresources that change a part of a pod's spec: ephemeralcontainers and resize."""

from copy import deepcopy
from typing import Any

import pytest

from actors.apiserver.api.request.query import WriteOptions
from actors.apiserver.api.request.target import Target
from actors.apiserver.writes.owners import updaters
from actors.apiserver.writes.patch import apply_mutation
from actors.apiserver.writes.update import replace_mutation, updated
from protocols.kinds.pods.pods import PODS
from protocols.kube.errors import StatusError
from protocols.kube.meta import Object


def stored(**spec: Any) -> Object:
    given = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}}
    app = {"name": "app", "image": "app:1", "resources": given}
    obj: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generation": 1},
        "spec": {"containers": [app], "initContainers": [{"name": "init", "image": "app:1"}], **spec},
    }
    PODS.strategy.default(obj)
    obj["status"] = {"phase": "Running", "qosClass": "Burstable"}
    return obj


def changed(part: str, old: Object, edit: Any) -> Object:
    new = deepcopy(old)
    edit(new)
    result = updated(Target(PODS, "patch", "ns", "p", part), new, deepcopy(old), patching=True)
    assert result is not None
    return result


def refused(part: str, old: Object, edit: Any) -> str:
    with pytest.raises(StatusError) as caught:
        changed(part, old, edit)
    return str(caught.value)


def debugger(**more: Any) -> Object:
    return {"name": "debugger", "image": "box:1", "targetContainerName": "app", **more}


def adding(*containers: Object) -> Any:
    return lambda pod: pod["spec"].setdefault("ephemeralContainers", []).extend(deepcopy(containers))


def test_an_ephemeral_container_is_added_and_nothing_else_changes() -> None:
    def edit(pod: Object) -> None:
        adding(debugger())(pod)
        pod["spec"]["containers"][0]["image"], pod["metadata"]["labels"] = "other", {"a": "b"}
        pod["status"] = {}

    old = stored()
    new = changed("ephemeralcontainers", old, edit)
    assert new["spec"].pop("ephemeralContainers") == [
        {
            **debugger(),
            "imagePullPolicy": "IfNotPresent",
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
        }
    ]
    assert (new["spec"], new["status"]) == (old["spec"], old["status"])
    assert new["metadata"]["generation"] == 2
    assert "labels" not in new["metadata"]


@pytest.mark.parametrize(
    ("container", "words"),
    [
        (debugger(name="app"), 'Duplicate value: "app"'),
        (debugger(name=""), "spec.ephemeralContainers[0].name: Required value"),
        (debugger(image=""), "image: Required value"),
        (debugger(targetContainerName="nobody"), 'targetContainerName: Not found: "nobody"'),
        (
            debugger(resources={"limits": {"cpu": "1"}}),
            "resources: Forbidden: cannot be set for an Ephemeral Container",
        ),
        (debugger(ports=[{"containerPort": 1}]), "ports: Forbidden"),
        (debugger(lifecycle={"preStop": {"sleep": {"seconds": 1}}}), "lifecycle: Forbidden"),
        (
            debugger(volumeMounts=[{"name": "v", "mountPath": "/v", "subPath": "x"}]),
            "volumeMounts[0].subPath: Forbidden",
        ),
    ],
)
def test_ephemeral_containers_that_are_refused(container: Object, words: str) -> None:
    assert words in refused("ephemeralcontainers", stored(), adding(container))


def test_what_is_there_is_neither_changed_nor_taken_back() -> None:
    old = changed("ephemeralcontainers", stored(), adding(debugger()))

    def other_image(pod: Object) -> None:
        pod["spec"]["ephemeralContainers"][0]["image"] = "box:2"

    assert 'existing ephemeral containers "debugger" may not be changed' in refused(
        "ephemeralcontainers", old, other_image
    )
    gone = refused("ephemeralcontainers", old, lambda pod: pod["spec"].pop("ephemeralContainers"))
    assert 'existing ephemeral containers "debugger" may not be removed' in gone
    more = changed("ephemeralcontainers", old, adding(debugger(name="second")))
    assert [c["name"] for c in more["spec"]["ephemeralContainers"]] == ["debugger", "second"]
    assert "pod updates may not change fields" in refused("", old, other_image)


def test_static_pods_have_no_such_parts() -> None:
    old = stored()
    old["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    assert "static pods do not support" in refused("ephemeralcontainers", old, adding(debugger()))
    assert "static pods cannot be resized" in refused("resize", old, sizing(requests={"cpu": "1"}))


def test_none_at_creation() -> None:
    fresh = stored(ephemeralContainers=[debugger()])
    assert any("cannot be set on create" in str(cause) for cause in PODS.strategy.validate_create(fresh))


def sizing(field: str = "containers", **resources: Any) -> Any:
    def edit(pod: Object) -> None:
        given = pod["spec"][field][0]["resources"]
        for side, amounts in resources.items():
            given[side] = {**given.get(side, {}), **amounts} if amounts is not None else {}

    return edit


def test_a_pod_is_resized_and_nothing_else_changes() -> None:
    def edit(pod: Object) -> None:
        sizing(requests={"cpu": "200m"}, limits={"memory": "256Mi"})(pod)
        pod["spec"]["containers"][0]["image"] = "other"
        pod["spec"]["nodeName"] = "elsewhere"

    new = changed("resize", stored(), edit)
    assert new["spec"]["containers"][0]["image"] == "app:1"
    assert "nodeName" not in new["spec"]
    assert new["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "200m", "memory": "64Mi"},
        "limits": {"memory": "256Mi"},
    }
    assert new["metadata"]["generation"] == 2


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (sizing(requests={"ephemeral-storage": "1Gi"}), "only cpu and memory resources are mutable"),
        (sizing(requests={"cpu": "-1"}), "must be greater than or equal to 0"),
        (sizing(limits=None), "resource limits cannot be removed"),
    ],
)
def test_sizes_that_are_refused(edit: Any, words: str) -> None:
    assert words in refused("resize", stored(), edit)


def test_containers_stay_where_they_are_in_a_resize() -> None:
    def renamed(pod: Object) -> None:
        pod["spec"]["containers"][0]["name"] = "other"

    def added(pod: Object) -> None:
        pod["spec"]["containers"].append({"name": "more", "image": "app:1"})

    moved = "spec.containers[0].name: Forbidden: containers may not be renamed or reordered on resize"
    assert moved in refused("resize", stored(), renamed)
    assert "spec.containers: Forbidden: containers may not be added or removed" in refused("resize", stored(), added)
    windows = stored(os={"name": "windows"})
    assert "windows pods cannot be resized" in refused("resize", windows, sizing(requests={"cpu": "200m"}))


def test_the_class_of_a_pod_stays() -> None:
    edit = sizing(limits={"cpu": "100m", "memory": "64Mi"})
    assert "Pod QOS Class may not change as a result of resizing" in refused("resize", stored(initContainers=[]), edit)


def test_a_pod_with_resources_as_a_whole_is_not_resized() -> None:
    old = stored(resources={"requests": {"cpu": "2"}})
    assert "pod-level resources cannot be resized" in refused("resize", old, sizing(requests={"cpu": "1"}))


def test_the_size_of_a_pod_changes_on_that_path_only() -> None:
    assert "pod updates may not change fields" in refused("", stored(), sizing(requests={"cpu": "200m"}))


@pytest.mark.parametrize(
    ("part", "spec", "fields"),
    [
        ("resize", {"containers": [{"name": "app", "resources": {"requests": {"cpu": "200m"}}}]}, "f:containers"),
        ("ephemeralcontainers", {"ephemeralContainers": [debugger()]}, "f:ephemeralContainers"),
    ],
)
def test_part_is_applied_and_owned(part: str, spec: Object, fields: str) -> None:
    named = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}}
    apply = apply_mutation(
        Target(PODS, "patch", "ns", "p", part), {**named, "spec": spec}, WriteOptions(manager="m", force=True)
    )
    new = apply(stored())
    assert new is not None
    assert new["metadata"]["generation"] == 2
    assert {entry["manager"]: list(entry["fieldsV1"]["f:spec"]) for entry in new["metadata"]["managedFields"]}["m"] == [
        fields
    ]


def test_ownership_of_a_resize_includes_what_it_ignored_as_upstream() -> None:
    target, old = Target(PODS, "update", "ns", "p", "resize"), stored()
    entry = {"manager": "o", "operation": "Update", "apiVersion": "v1", "fieldsV1": {"f:spec": {"f:nodeName": {}}}}
    old["metadata"]["managedFields"] = [entry]
    sent = deepcopy(old)
    sent["spec"]["containers"][0]["image"] = "other"
    new = replace_mutation(target, sent, updaters(target, WriteOptions(manager="m")))(old)
    mine = new["metadata"]["managedFields"][-1]["fieldsV1"]
    assert mine == {"f:spec": {"f:containers": {'k:{"name":"app"}': {"f:image": {}}}}}
