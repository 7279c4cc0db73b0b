"""Workloads as clients see them: columns, schemas, protobuf, warnings, what a deletion leaves."""

import time
from typing import Any

import pytest

from actors.apiserver.api.request.target import Target
from actors.apiserver.http.endpoints.scales import scale_of, with_replicas
from actors.apiserver.writes.delete import DeleteOptions, delete_options, deleted
from protocols.kinds.shapes.clean import clean
from protocols.kinds.shapes.registry import kind_shape
from protocols.kinds.shapes.shape import Shape
from protocols.kinds.workloads.columns import label_text
from protocols.kube.protobuf import decode_object, encode_object
from protocols.kube.selectors import selector_text
from protocols.kube.times import format_time
from tests.support.workloads import CRON, JOB, SELECTED, TEMPLATE, Object, body, cells, created, row_of, with_path

STRIP = ("Name", "Age")
OWN = "batch.kubernetes.io/controller-uid=0f5c"


def shown(plural: str, obj: Object) -> dict[str, Any]:
    return {title: value for title, value in cells(plural, obj).items() if title not in STRIP}


WIDE = {"Containers": "c", "Images": "busybox:1"}


@pytest.mark.parametrize(
    ("plural", "spec", "status", "found"),
    [
        (
            "deployments",
            {**SELECTED, "replicas": 3},
            {"readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1},
            {"Ready": "1/3", "Up-to-date": 2, "Available": 1, **WIDE, "Selector": "app=a"},
        ),
        (
            "replicasets",
            {**SELECTED, "replicas": 3},
            {"replicas": 2, "readyReplicas": 1},
            {"Desired": 3, "Current": 2, "Ready": 1, **WIDE, "Selector": "app=a"},
        ),
        (
            "daemonsets",
            SELECTED,
            {"desiredNumberScheduled": 3, "currentNumberScheduled": 2, "numberReady": 1},
            {"Desired": 3, "Current": 2, "Ready": 1, "Up-to-date": 0, "Available": 0, "Node Selector": "<none>", **WIDE,
             "Selector": "app=a"},
        ),
        ("statefulsets", SELECTED, {"readyReplicas": 1}, {"Ready": "1/1", **WIDE}),
        (
            "replicationcontrollers",
            {"template": TEMPLATE},
            {"replicas": 1},
            {"Desired": 1, "Current": 1, "Ready": 0, **WIDE, "Selector": "app=a"},
        ),
        (
            "jobs",
            JOB,
            {"succeeded": 1},
            {"Status": "Running", "Completions": "1/1", "Duration": "", **WIDE, "Selector": OWN},
        ),
        (
            "cronjobs",
            {**CRON, "timeZone": "UTC"},
            {"active": [{"name": "a"}]},
            {"Schedule": "0 * * * *", "Timezone": "UTC", "Suspend": "False", "Active": 1, "Last Schedule": "<none>",
             **WIDE, "Selector": "<none>"},
        ),
    ],
)  # fmt: skip
def test_columns_equal_upstream(plural: str, spec: Object, status: Object, found: Object) -> None:
    assert shown(plural, {**created(plural, spec), "status": status}) == found


def _metric(kind: str, source: str, **target: Any) -> Object:
    return {"type": kind, source: {"name": "cpu", "target": target}}


METRICS = [_metric("Resource", "resource", averageUtilization=80), _metric("External", "external", averageValue="5")]
NOW = [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 7}}}]
PORTS = [{"port": 80}, {"name": "a"}, {}, {"port": 81}]
BOUND = {"accessModes": ["ReadWriteMany", "ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "phase": "Bound"}
OF_CLASS = {
    "annotations": {"volume.beta.kubernetes.io/storage-class": "old"},
    "deletionTimestamp": "2026-01-01T00:00:00Z",
}
DEFAULT = {"storageclass.kubernetes.io/is-default-class": "true"}


@pytest.mark.parametrize(
    ("plural", "obj", "found"),
    [
        ("horizontalpodautoscalers", {"spec": {"metrics": METRICS}},
         {"Targets": "cpu: <unknown>/80%, <unknown>/5 (avg)"}),
        ("horizontalpodautoscalers", {"spec": {"minReplicas": 1, "maxReplicas": 3}},
         {"MinPods": "1", "MaxPods": 3, "Replicas": 0}),
        ("events", {"count": 0, "firstTimestamp": "bad", "eventTime": "2026-01-01T00:00:00Z"},
         {"Count": 1, "Last Seen": "<unknown>"}),
        ("horizontalpodautoscalers", {"spec": {"metrics": METRICS * 2}, "status": {"currentMetrics": NOW}},
         {"Targets": "cpu: 7%/80%, <unknown>/5 (avg) + 2 more..."}),
        ("services", {"spec": {"type": "LoadBalancer", "selector": {"b": "1", "a": "2"}}},
         {"External-IP": "<pending>", "Selector": "a=2,b=1"}),
        ("endpoints", {"subsets": [{"addresses": [{"ip": "fd00::1"}], "ports": PORTS[:1]}]},
         {"Endpoints": "[fd00::1]:80"}),
        ("services", {"spec": {"type": "ClusterIP"}, "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.9"}]}}},
         {"External-IP": "<none>"}),
        ("endpoints", {"subsets": [{"addresses": [{"ip": "10.0.0.1"}] * 40_000, "ports": [{"port": 1}] * 40_000}]},
         {"Endpoints": "10.0.0.1:1,10.0.0.1:1,10.0.0.1:1 + 1599999997 more..."}),
        ("endpoints", {}, {"Endpoints": "<none>"}),
        ("endpoints", {"subsets": [{"notReadyAddresses": [{"ip": "10.0.0.1"}]}]}, {"Endpoints": ""}),
        ("endpointslices", {"ports": PORTS}, {"Ports": "80,a,* + 1 more..."}),
        ("persistentvolumeclaims", {"spec": {"accessModes": ["ReadWriteOnce"]}, "status": BOUND},
         {"Status": "Bound", "Access Modes": "", "Capacity": ""}),
        ("persistentvolumeclaims", {"metadata": OF_CLASS, "spec": {"volumeName": "v"}, "status": BOUND},
         {"Status": "Terminating", "Access Modes": "RWO,RWX", "Capacity": "1Gi", "StorageClass": "old"}),
        ("persistentvolumeclaims", {"spec": {"volumeName": "v"}}, {"Capacity": "0"}),
        ("validatingadmissionpolicybindings", {"spec": {"paramRef": {"name": "x"}}}, {"ParamRef": "*/x"}),
        ("validatingadmissionpolicybindings", {"spec": {"paramRef": {"name": "x", "namespace": "n"}}},
         {"ParamRef": "n/x"}),
        ("storageclasses", {"metadata": {"name": "x", "annotations": DEFAULT}}, {"Name": "x (default)"}),
    ],
)  # fmt: skip
def test_cells_equal_upstream(plural: str, obj: Object, found: Object) -> None:
    assert cells(plural, obj).items() >= found.items()


def test_columns_of_templates_and_revisions() -> None:
    assert shown("podtemplates", {"template": TEMPLATE}) == {**WIDE, "Pod Labels": "app=a"}
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "controller": True}
    revision = {"metadata": {"ownerReferences": [owner]}, "revision": 2}
    assert shown("controllerrevisions", revision) == {"Controller": "daemonset.apps/d", "Revision": 2}
    assert cells("controllerrevisions", {"metadata": {}})["Controller"] == "<none>"


@pytest.mark.parametrize(
    ("conditions", "deletion", "status"),
    [
        (["SuccessCriteriaMet", "Complete"], "", "Complete"),
        (["FailureTarget", "Failed"], "", "Failed"),
        (["Complete"], "2026-01-01T00:00:00Z", "Complete"),
        (["Suspended"], "2026-01-01T00:00:00Z", "Terminating"),
        (["Suspended"], "", "Suspended"),
        (["FailureTarget"], "", "FailureTarget"),
        (["SuccessCriteriaMet"], "", "SuccessCriteriaMet"),
        ([], "", "Running"),
    ],
)
def test_job_status_word(conditions: list[str], deletion: str, status: str) -> None:
    job = with_path(created("jobs", JOB), "metadata.deletionTimestamp", deletion or None)
    job["status"] = {"conditions": [{"type": kind, "status": "True"} for kind in conditions]}
    assert cells("jobs", job)["Status"] == status


def test_job_completions_and_duration() -> None:
    beside = created("jobs", {**JOB, "parallelism": 3})
    assert cells("jobs", beside)["Completions"] == "0/1 of 3"
    assert cells("jobs", created("jobs", {**JOB, "parallelism": 1}))["Completions"] == "0/1"
    start = int(time.time()) - 90
    done = {"startTime": format_time(start), "completionTime": format_time(start + 61.5)}
    assert cells("jobs", {**beside, "status": done})["Duration"] == "61s"
    started = {"startTime": format_time(time.time() - 3600)}
    assert cells("jobs", {**beside, "status": started})["Duration"] == "60m"


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        ({}, ""),
        ({"b": "c", "a": ""}, "a=,b=c"),
        ({"matchLabels": {"b": "c", "a": "d"}}, "a=d,b=c"),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["y", "x"]}]}, "a in (x,y)"),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["x"]}]}, "a notin (x)"),
        ({"matchLabels": {"z": "1"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]}, "a,z=1"),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, "!a"),
    ],
)
def test_selector_text(selector: Object, text: str) -> None:
    assert selector_text(selector) == text


def test_label_text_tolerates_other_values() -> None:
    assert label_text(None) == label_text([]) == ""


KINDS = {
    "daemonsets": SELECTED,
    "deployments": SELECTED,
    "replicasets": SELECTED,
    "statefulsets": {**SELECTED, "volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": {}}]},
    "replicationcontrollers": {"template": TEMPLATE},
    "jobs": {**JOB, "completionMode": "Indexed", "completions": 2, "successPolicy": {"rules": [{"succeededCount": 0}]}},
    "cronjobs": CRON,
}


@pytest.mark.parametrize("plural", KINDS)
def test_protobuf_loses_nothing(plural: str) -> None:
    row, made = row_of(plural), created(plural, KINDS[plural])
    back = decode_object(encode_object(made))
    assert row.shape is not None
    for obj in (back, made):
        clean(obj, row.shape)
        row.strategy.default(obj)
    assert back == made


def test_protobuf_of_templates_and_revisions() -> None:
    made: Object = {**body("podtemplates", {}), "template": TEMPLATE}
    made.pop("spec")
    assert decode_object(encode_object(made))["template"]["spec"]["containers"][0]["image"] == "busybox:1"
    revision = {**body("controllerrevisions", {}), "data": {"spec": {"template": {"$patch": "replace"}}}, "revision": 3}
    revision.pop("spec")
    assert decode_object(encode_object(revision)) == revision


def shape_at(group: str, kind: str, path: str) -> Shape:
    shape = kind_shape(group, "v1", kind)
    for step in path.split("."):
        assert shape is not None
        shape = shape.fields[step] if shape.form == "struct" else shape.item.fields[step]  # type: ignore[union-attr]  # a list
    assert shape is not None
    return shape


@pytest.mark.parametrize(
    ("group", "kind", "path", "keys", "patch"),
    [
        ("apps", "Deployment", "spec.template.spec.containers", ("name",), ("merge", "name")),
        ("apps", "Deployment", "status.conditions", ("type",), ("merge", "type")),
        ("apps", "Deployment", "spec.strategy", (), ("retainKeys", "")),
        ("apps", "DaemonSet", "spec.template.spec.volumes", ("name",), ("merge,retainKeys", "name")),
        ("apps", "StatefulSet", "spec.volumeClaimTemplates", (), ("", "")),
        ("batch", "Job", "status.conditions", (), ("merge", "type")),
        ("batch", "Job", "status.uncountedTerminatedPods.failed", (), ("", "")),
        ("batch", "CronJob", "status.active", (), ("", "")),
        ("", "PodTemplate", "template.spec.initContainers", ("name",), ("merge", "name")),
    ],
)  # fmt: skip
def test_lists_merge_by_upstreams_keys(
    group: str, kind: str, path: str, keys: tuple[str, ...], patch: tuple[str, str]
) -> None:
    shape = shape_at(group, kind, path)
    assert (shape.keys, shape.patch) == (keys, patch)


def test_names_that_are_no_labels_warn_where_pods_carry_them() -> None:
    for plural in ("deployments", "replicasets", "jobs", "cronjobs", "replicationcontrollers"):
        strategy, named = row_of(plural).strategy, {"metadata": {"name": "a.b"}}
        assert strategy.warnings(named, None)[0].endswith("a DNS label is recommended: [must not contain dots]")
        assert strategy.warnings(named, named) == []
    assert row_of("daemonsets").strategy.warnings({"metadata": {"name": "a.b"}}, None) == []


@pytest.mark.parametrize(
    ("plural", "options", "finalizers"),
    [
        ("jobs", {}, ["orphan"]),
        ("jobs", {"propagationPolicy": "Background"}, None),
        ("jobs", {"orphanDependents": False}, None),
        ("jobs", {"propagationPolicy": "Foreground"}, ["foregroundDeletion"]),
        ("deployments", {}, None),
        ("events", {"propagationPolicy": "Foreground"}, None),  # the garbage collector does not follow them
    ],
)
def test_deletion_without_a_policy_leaves_the_pods_of_a_job(plural: str, options: Object, finalizers: Any) -> None:
    row = row_of(plural)
    left = deleted(Target(row, "delete", "ns", "x"), delete_options(options, {}, []), body(plural, {}))
    assert (left["metadata"]["finalizers"] if left else None) == finalizers


def test_deletion_of_a_pod_template_returns_it() -> None:
    assert row_of("podtemplates").returns_object


def test_finalizer_of_a_policy_takes_precedence_over_the_kind() -> None:
    held = body("jobs", {}, finalizers=["foregroundDeletion"])
    left = deleted(Target(row_of("jobs"), "delete", "ns", "x"), DeleteOptions(), held)
    assert left is not None
    assert left["metadata"]["finalizers"] == ["foregroundDeletion"]


def test_scale_leaves_out_zero_and_names_the_selector() -> None:
    target = Target(row_of("deployments"), "get", "ns", "x", "scale")
    scale = scale_of(target, created("deployments", {**SELECTED, "replicas": 0}))
    assert scale["spec"] == {}
    assert scale["status"] == {"replicas": 0, "selector": "app=a"}
    assert scale["metadata"] == {"name": "x", "namespace": "ns", "uid": "0f5c", "resourceVersion": "7"}
    old = created("replicationcontrollers", {"template": TEMPLATE})
    assert with_replicas(target, old, 4)["spec"]["replicas"] == 4
    assert old["spec"]["replicas"] == 1
    controller = Target(row_of("replicationcontrollers"), "get", "ns", "x", "scale")
    assert scale_of(controller, old)["status"]["selector"] == "app=a"


@pytest.mark.parametrize("kind", ["pods", "deployments", "statefulsets", "jobs"])
def test_negative_grace_period_is_a_warning_and_counts_as_a_second(kind: str) -> None:
    path = "spec" if kind == "pods" else "spec.template.spec"
    strategy, spec = row_of(kind).strategy, {"terminationGracePeriodSeconds": -1}
    stored = {"metadata": {"name": "a"}, "spec": spec if kind == "pods" else {"template": {"spec": spec}}}
    (warning,) = strategy.warnings(stored, None)
    assert warning.startswith(f"{path}.terminationGracePeriodSeconds: must be >= 0;")
    if kind == "pods":
        assert strategy.grace_seconds({"metadata": {}, "spec": {**spec, "nodeName": "n"}}, None) == 1


@pytest.mark.parametrize(
    ("plural", "field"), [("jobs", "status.successful"), ("replicationcontrollers", "status.replicas")]
)
def test_field_selector_of_a_count_matches_0_where_there_is_none(plural: str, field: str) -> None:
    assert row_of(plural).fields[field]({"status": {}}) == "0"
