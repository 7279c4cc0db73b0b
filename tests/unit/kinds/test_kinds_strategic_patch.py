from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.kinds.patches.strategic import apply_strategic_patch
from protocols.kinds.shapes.registry import kind_shape
from protocols.kube.errors import KubeError

Json = dict[str, Any]


def pod(spec: Json | None = None, status: Json | None = None, **meta: Any) -> Json:
    return {"metadata": {"name": "p", **meta}, "spec": spec or {}, "status": status or {}}


def patched(document: Json, patch: Any, kind: str = "Pod") -> Json:
    group = {"ResourceClaim": "resource.k8s.io", "Deployment": "apps", "Job": "batch"}.get(kind, "")
    return apply_strategic_patch(kind_shape(group, "v1", kind), document, patch)


def names(items: list[Json]) -> list[str]:
    return [item["name"] for item in items]


def test_maps_merge_and_null_deletes() -> None:
    found = patched(pod(labels={"a": "1", "b": "2"}), {"metadata": {"labels": {"b": None, "c": "3"}}})
    assert found["metadata"]["labels"] == {"a": "1", "c": "3"}


def test_containers_merge_by_name_and_new_ones_stand_as_in_the_patch() -> None:
    document = pod({"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "y", "tty": True}]})
    patch = {"spec": {"containers": [{"name": "c", "image": "z"}, {"name": "b", "image": "w"}]}}
    assert patched(document, patch)["spec"]["containers"] == [
        {"name": "c", "image": "z"},
        {"name": "a", "image": "x"},
        {"name": "b", "image": "w", "tty": True},
    ]


def test_nested_lists_merge_by_their_own_keys() -> None:
    ports = [{"containerPort": 80, "name": "web"}]
    env = [{"name": "A", "value": "1"}]
    mounts = [{"mountPath": "/a", "name": "v"}]
    document = pod({"containers": [{"name": "c", "ports": ports, "env": env, "volumeMounts": mounts}]})
    change = {
        "name": "c",
        "ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 81}],
        "env": [{"name": "A", "value": "2"}],
        "volumeMounts": [{"mountPath": "/a", "readOnly": True}],
    }
    container = patched(document, {"spec": {"containers": [change]}})["spec"]["containers"][0]
    assert container["ports"] == [{"containerPort": 80, "name": "web", "protocol": "TCP"}, {"containerPort": 81}]
    assert container["env"] == [{"name": "A", "value": "2"}]
    assert container["volumeMounts"] == [{"mountPath": "/a", "name": "v", "readOnly": True}]


def test_conditions_merge_by_type() -> None:
    document = pod(status={"conditions": [{"type": "Ready", "status": "False", "reason": "x"}, {"type": "Other"}]})
    found = patched(document, {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    assert found["status"]["conditions"] == [{"type": "Ready", "status": "True", "reason": "x"}, {"type": "Other"}]


@pytest.mark.parametrize(
    ("kind", "section", "field"),
    [
        ("Pod", "spec", "tolerations"),
        ("Pod", "status", "containerStatuses"),
        ("Node", "spec", "taints"),
        ("ResourceClaim", "status", "devices"),
        ("ResourceSlice", "spec", "devices"),
        ("ResourceSlicePatch", "spec", "devices"),
    ],
)
def test_atomic_lists_are_replaced_whole(kind: str, section: str, field: str) -> None:
    document = {section: {field: [{"name": "a", "key": "k"}, {"name": "b"}]}}
    assert patched(document, {section: {field: [{"name": "b"}]}}, kind)[section][field] == [{"name": "b"}]


def test_sets_of_strings_unite() -> None:
    document = pod(finalizers=["a", "b"])
    assert patched(document, {"metadata": {"finalizers": ["b", "c"]}})["metadata"]["finalizers"] == ["a", "b", "c"]


def test_delete_from_primitive_list() -> None:
    document = pod(finalizers=["a", "b", "c"])
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["b", "x"]}}
    assert patched(document, patch)["metadata"]["finalizers"] == ["a", "c"]
    both = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["b"], "finalizers": ["d"]}}
    assert patched(document, both)["metadata"]["finalizers"] == ["d", "a", "c"]
    assert "finalizers" not in patched(pod(), patch)["metadata"]
    assert patched(document, {"metadata": {"$deleteFromPrimitiveList/finalizers": "a"}}) == document


def test_patch_delete_in_a_list() -> None:
    document = pod({"containers": [{"name": "a"}, {"name": "b"}]})
    patch = {"spec": {"containers": [{"$patch": "delete", "name": "a"}, {"$patch": "delete", "name": "zz"}]}}
    assert names(patched(document, patch)["spec"]["containers"]) == ["b"]


def test_patch_replace_in_a_list() -> None:
    document = pod({"containers": [{"name": "a"}, {"name": "b"}]})
    patch = {"spec": {"containers": [{"name": "c"}, {"$patch": "replace"}]}}
    assert patched(document, patch)["spec"]["containers"] == [{"name": "c"}]


def test_patch_directives_of_maps() -> None:
    document = pod(labels={"a": "1"})
    replace = {"metadata": {"labels": {"$patch": "replace", "b": "2"}}}
    assert patched(document, replace)["metadata"]["labels"] == {"b": "2"}
    merge = {"metadata": {"labels": {"$patch": "merge", "b": "2"}}}
    assert patched(document, merge)["metadata"]["labels"] == {"a": "1", "b": "2"}
    delete = {"metadata": {"labels": {"$patch": "delete"}, "annotations": {"$patch": "delete"}}}
    assert patched(document, delete)["metadata"] == {"name": "p", "labels": {}}


def test_retain_keys_swaps_the_source_of_a_volume() -> None:
    document = pod({"volumes": [{"name": "v", "emptyDir": {}}]})
    patch = {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}}
    assert patched(document, patch)["spec"]["volumes"] == [{"name": "v", "hostPath": {"path": "/x"}}]


def test_set_element_order_of_a_keyed_list() -> None:
    document = pod({"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}]})
    patch = {
        "spec": {
            "$setElementOrder/containers": [{"name": "c"}, {"name": "d"}, {"name": "a"}],
            "containers": [{"name": "d", "image": "x"}],
        }
    }
    found = names(patched(document, patch)["spec"]["containers"])
    assert [name for name in found if name != "b"] == ["c", "d", "a"]
    assert found.index("b") < found.index("c"), "a server-only element stays before the one it stood before"


def test_set_element_order_alone_reorders() -> None:
    document = pod({"containers": [{"name": "a"}, {"name": "b"}]})
    patch = {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}}
    assert names(patched(document, patch)["spec"]["containers"]) == ["b", "a"]
    assert "containers" not in patched(pod(), patch)["spec"]


def test_set_element_order_of_scalars() -> None:
    patch = {"metadata": {"$setElementOrder/finalizers": ["c", "a"], "finalizers": ["c"]}}
    assert patched(pod(finalizers=["a", "b"]), patch)["metadata"]["finalizers"] == ["c", "a", "b"]


def test_what_kubectl_apply_sends_when_a_container_changes() -> None:
    document = pod({"containers": [{"name": "main", "image": "a", "resources": {"limits": {"example.com/gpu": "2"}}}]})
    patch = {
        "metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}},
        "spec": {
            "$setElementOrder/containers": [{"name": "main"}],
            "containers": [{"name": "main", "image": "b"}],
        },
    }
    found = patched(document, patch)
    assert found["spec"]["containers"] == [
        {"name": "main", "image": "b", "resources": {"limits": {"example.com/gpu": "2"}}}
    ]


def test_values_of_another_type_replace() -> None:
    assert patched({"spec": []}, {"spec": {"a": 1}})["spec"] == {"a": 1}
    assert patched({"spec": {"a": 1}}, {"spec": 2})["spec"] == 2


def test_new_parts_lose_nulls_and_directives() -> None:
    patch = {"spec": {"containers": [{"name": "a", "image": None, "$retainKeys": ["name"]}], "x": {"y": None}}}
    assert patched({}, patch) == {"spec": {"containers": [{"name": "a"}], "x": {}}}


@pytest.mark.parametrize(
    ("patch", "code"),
    [
        ([], 400),
        ("x", 400),
        ({"$patch": "explode"}, 422),
        ({"spec": {"containers": ["a"]}}, 400),
        ({"spec": {"containers": [{"image": "a"}]}}, 422),
        ({"spec": {"containers": [{"name": None}]}}, 422),
        ({"spec": {"containers": [{"$patch": "delete"}]}}, 422),
        ({"spec": {"volumes": [{"name": "v", "$retainKeys": "name"}]}}, 400),
        ({"spec": {"volumes": [{"name": "v", "$retainKeys": ["x"]}]}}, 400),
        ({"metadata": {"$setElementOrder/finalizers": "a"}}, 400),
        ({"metadata": {"$setElementOrder/finalizers": [{"a": 1}]}}, 400),
        ({"metadata": {"$setElementOrder/finalizers": ["f"], "finalizers": ["g"]}}, 422),
        ({"metadata": {"$setElementOrder/finalizers": ["f", "g"], "finalizers": ["g", "f"]}}, 422),
        ({"spec": {"$setElementOrder/containers": ["c"]}}, 400),
    ],
)
def test_malformed_patches(patch: Any, code: int) -> None:
    document = pod({"containers": [{"name": "c"}], "volumes": [{"name": "v"}]}, finalizers=["f"])
    with pytest.raises(KubeError) as caught:
        patched(document, patch)
    assert caught.value.http == code


def test_large_lists_stay_linear() -> None:
    many = [{"name": f"e{number}", "value": "x"} for number in range(20_000)]
    document = pod({"containers": [{"name": "c", "env": many}]})
    order = [{"name": item["name"]} for item in reversed(many)]
    patch = {"spec": {"containers": [{"name": "c", "env": list(reversed(many)), "$setElementOrder/env": order}]}}
    assert patched(document, patch)["spec"]["containers"][0]["env"][0]["name"] == "e19999"


scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["a", "b", "name"])
FIELDS = "spec containers name env finalizers metadata volumes $patch $retainKeys $setElementOrder/env"
fields = st.sampled_from((FIELDS + " $setElementOrder/containers $deleteFromPrimitiveList/finalizers").split())
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(fields, inner, max_size=4))


@given(st.dictionaries(fields, values, max_size=4), values)
def test_any_patch_applies_or_is_refused_and_changes_no_input(document: Json, patch: Any) -> None:
    before = repr((document, patch))
    try:
        found = patched(document, patch)
    except KubeError as error:
        assert error.http in (400, 422)  # noqa: PT017 # both outcomes are fine
    else:
        assert isinstance(found, dict)
    assert repr((document, patch)) == before


def test_template_lists_merge_by_their_keys() -> None:
    containers = [{"name": "a", "image": "x", "env": [{"name": "A", "value": "1"}]}, {"name": "b", "image": "y"}]
    document = {"spec": {"template": {"spec": {"containers": containers}}}}
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "a", "env": [{"name": "B"}]}]}}}}
    found = patched(document, patch, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert found[0] == {"name": "a", "image": "x", "env": [{"name": "B"}, {"name": "A", "value": "1"}]}
    assert found[1] == containers[1]


def test_deployment_strategy_retains_only_the_keys_that_are_listed() -> None:
    document = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert patched(document, patch, "Deployment")["spec"]["strategy"] == {"type": "Recreate"}


def test_job_conditions_merge_by_type_although_they_are_owned_as_a_whole() -> None:
    document = {"status": {"conditions": [{"type": "Complete", "status": "False"}]}}
    patch = {"status": {"conditions": [{"type": "Suspended", "status": "True"}]}}
    assert len(patched(document, patch, "Job")["status"]["conditions"]) == 2


def test_list_that_no_patch_merges_is_replaced() -> None:
    document = {"status": {"uncountedTerminatedPods": {"failed": ["a"]}}}
    patch = {"status": {"uncountedTerminatedPods": {"failed": ["b"]}}}
    assert patched(document, patch, "Job")["status"]["uncountedTerminatedPods"]["failed"] == ["b"]
