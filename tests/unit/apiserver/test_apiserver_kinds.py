"""Validation of kinds that only agents read: config, events, storage, endpoints, roles, classes."""

from typing import Any

import pytest

from actors.apiserver.table import TABLE
from protocols.kinds.served.row import Served
from protocols.kinds.shapes.clean import WrongType, clean
from protocols.kube.meta import Object


def row(plural: str, group: str = "") -> Served:
    return next(each for each in TABLE.built_in if (each.plural, each.group) == (plural, group))


ATTRIBUTES = "volumeAttributesClassName"
CSI = {"driver": "csi.example.com", "volumeHandle": "h"}
VOLUME: Object = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "csi": CSI}
CLAIM: Object = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
TERM = {"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}
PODS = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
EVENT: Object = {
    "involvedObject": {"namespace": "ns"},
    "eventTime": "2026-01-01T00:00:00.000000Z",
    "reportingComponent": "example.com/c",
    "reportingInstance": "i",
    "action": "a",
    "reason": "r",
}


def made(kind: Served, body: Object) -> Object:
    obj = {"metadata": {"name": "a", "namespace": "ns"}, **body, "kind": kind.kind, "apiVersion": kind.api_version}
    assert kind.shape is not None
    clean(obj, kind.shape)
    kind.strategy.default(obj)
    return obj


def fields(kind: Served, body: Object) -> list[str]:
    obj = made(kind, body)
    kind.strategy.prepare_create(obj)
    return list(dict.fromkeys(cause.field for cause in kind.strategy.validate_create(obj)))


def changed(kind: Served, new: Object, old: Object, **status: Any) -> list[str]:
    before = {**made(kind, old), **({"status": status} if status else {})}
    return list(dict.fromkeys(cause.field for cause in kind.strategy.validate_update(made(kind, new), before)))


@pytest.mark.parametrize(
    ("plural", "group", "body", "wrong"),
    [
        ("configmaps", "", {"data": {"a.b": "", "..a": "", "": "", "..": ""}}, ["data[..a]", "data[]", "data[..]"]),
        ("configmaps", "", {"data": {"a": ""}, "binaryData": {"a": ""}}, ["data[a]"]),
        ("secrets", "", {"data": {"a/b": ""}}, ["data[a/b]"]),
        ("secrets", "", {"type": "kubernetes.io/tls", "data": {"tls.crt": ""}}, ["data[tls.key]"]),
        ("secrets", "", {"type": "kubernetes.io/ssh-auth", "data": {"ssh-privatekey": ""}}, ["data[ssh-privatekey]"]),
        ("secrets", "", {"type": "kubernetes.io/basic-auth"}, ["data[username]", "data[password]"]),
        ("secrets", "", {"type": "kubernetes.io/basic-auth", "data": {"password": ""}}, []),
        ("secrets", "", {"type": "kubernetes.io/dockercfg"}, ["data[.dockercfg]"]),
        ("secrets", "", {"type": "kubernetes.io/dockercfg", "stringData": {".dockercfg": "{}"}}, []),
        ("secrets", "", {"type": "kubernetes.io/dockercfg", "stringData": {".dockercfg": "{"}}, ["data[.dockercfg]"]),
        ("secrets", "", {"type": "kubernetes.io/dockercfg", "stringData": {".dockercfg": "[]"}}, ["data[.dockercfg]"]),
        (
            "secrets",
            "",
            {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": ""}},
            ["data[.dockerconfigjson]"],
        ),
        (
            "secrets",
            "",
            {"type": "kubernetes.io/service-account-token"},
            ["metadata.annotations[kubernetes.io/service-account.name]"],
        ),
        ("events", "", {"involvedObject": {"namespace": "other"}}, ["involvedObject.namespace"]),
        ("events", "", EVENT, []),
        ("nodes", "", {"status": {"declaredFeatures": ["GuestPod/resize", "x"]}}, ["status.declaredFeatures[1]"]),
        ("events", "", {**EVENT, "reason": "", "reportingComponent": "a b"}, ["reportingComponent", "reason"]),
        ("persistentvolumes", "", {"spec": VOLUME}, []),
        ("persistentvolumes", "", {"spec": {**VOLUME, "csi": None}}, ["spec"]),
        ("persistentvolumes", "", {"spec": {**VOLUME, "hostPath": {"path": "/x"}}}, ["spec.csi"]),
        ("persistentvolumes", "", {"spec": {**VOLUME, "capacity": {}}}, ["spec.capacity"]),
        ("persistentvolumes", "", {"spec": {**VOLUME, "accessModes": ["X"]}}, ["spec.accessModes"]),
        (
            "persistentvolumes",
            "",
            {"spec": {**VOLUME, "csi": {"driver": "a b"}}},
            ["spec.csi.driver", "spec.csi.volumeHandle"],
        ),
        ("persistentvolumes", "", {"spec": {**VOLUME, ATTRIBUTES: "a"}}, []),
        ("persistentvolumes", "", {"spec": {**VOLUME, ATTRIBUTES: ""}}, [f"spec.{ATTRIBUTES}"]),
        (
            "persistentvolumes",
            "",
            {"spec": {**VOLUME, "csi": None, "hostPath": {"path": "/x"}, ATTRIBUTES: "a"}},
            ["spec.csi"],
        ),
        ("persistentvolumeclaims", "", {"spec": CLAIM}, []),
        ("persistentvolumeclaims", "", {"spec": {}}, ["spec.accessModes", "spec.resources[storage]"]),
        ("persistentvolumeclaims", "", {"spec": {**CLAIM, "storageClassName": "A"}}, ["spec.storageClassName"]),
        (
            "persistentvolumeclaims",
            "",
            {"spec": {**CLAIM, "selector": {"matchExpressions": [{"key": "a", "operator": "X"}]}}},
            ["spec.selector.matchExpressions[0].operator"],
        ),
        (
            "persistentvolumeclaims",
            "",
            {"spec": {**CLAIM, "dataSourceRef": {"kind": "A"}}},
            ["spec.dataSourceRef.name", "spec.dataSourceRef"],
        ),
        ("storageclasses", "storage.k8s.io", {"provisioner": "p", "allowedTopologies": [TERM]}, []),
        ("storageclasses", "storage.k8s.io", {"reclaimPolicy": "Recycle"}, ["provisioner", "reclaimPolicy"]),
        (
            "storageclasses",
            "storage.k8s.io",
            {"provisioner": "p", "allowedTopologies": [TERM, TERM]},
            ["allowedTopologies[1].matchLabelExpressions"],
        ),
        ("csidrivers", "storage.k8s.io", {"spec": {}}, []),
        ("csidrivers", "storage.k8s.io", {"spec": {"fsGroupPolicy": "X"}}, ["spec.fsGroupPolicy"]),
        ("csinodes", "storage.k8s.io", {"spec": {"drivers": [{"name": "d"}]}}, ["spec.drivers[0].nodeID"]),
        ("endpoints", "", {"subsets": [{}]}, ["subsets[0]"]),
        ("endpoints", "", {"subsets": [{"addresses": [{"ip": "127.0.0.1"}]}]}, ["subsets[0].addresses[0].ip"]),
        ("endpointslices", "discovery.k8s.io", {"addressType": "IPv4"}, []),
        (
            "endpointslices",
            "discovery.k8s.io",
            {"addressType": "IPv4", "endpoints": [{"addresses": ["::1"]}], "ports": [{}, {}]},
            ["endpoints[0].addresses[0]", "ports[1].name"],
        ),
        ("priorityclasses", "scheduling.k8s.io", {"value": None}, []),
        ("priorityclasses", "scheduling.k8s.io", {"preemptionPolicy": "X"}, ["preemptionPolicy"]),
        (
            "runtimeclasses",
            "node.k8s.io",
            {"handler": "h", "scheduling": {"tolerations": [{}], "nodeSelector": {"a b": ""}}},
            ["scheduling.nodeSelector", "scheduling.tolerations[0].operator"],
        ),
        ("clusterroles", "rbac.authorization.k8s.io", {"rules": [PODS]}, []),
        (
            "clusterroles",
            "rbac.authorization.k8s.io",
            {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "-"}}]}},
            [f"aggregationRule.clusterRoleSelectors[0]{part}" for part in (".matchLabels", "")],
        ),
        ("namespaces", "", {"spec": {"finalizers": ["kubernetes", "example.com/x"]}}, []),
        ("namespaces", "", {"spec": {"finalizers": ["x"]}}, ["spec.finalizers"]),
    ],
)
def test_validate_create_names_what_is_wrong(plural: str, group: str, body: Object, wrong: list[str]) -> None:
    assert fields(row(plural, group), body) == wrong


def test_finalizers_of_a_namespace_have_their_index_in_the_subresource() -> None:
    strategy, new = row("namespaces").strategy, {"spec": {"finalizers": ["kubernetes", "x", "example.com/x", "A b"]}}
    assert [cause.field for cause in strategy.validate_finalize(new)] == ["spec.finalizers[1]", "spec.finalizers[3]"]


@pytest.mark.parametrize(
    ("plural", "group", "old", "new", "wrong"),
    [
        (
            "persistentvolumes",
            "",
            VOLUME,
            {**VOLUME, "csi": {**CSI, "volumeHandle": "x"}},
            ["spec.persistentvolumesource"],
        ),
        ("persistentvolumes", "", VOLUME, {**VOLUME, "volumeMode": "Block"}, ["volumeMode"]),
        ("persistentvolumes", "", {**VOLUME, ATTRIBUTES: "a"}, {**VOLUME, ATTRIBUTES: "b"}, []),
        ("persistentvolumes", "", {**VOLUME, ATTRIBUTES: "a"}, VOLUME, [f"spec.{ATTRIBUTES}"]),
        ("persistentvolumes", "", VOLUME, {**VOLUME, "capacity": {"storage": "2Gi"}}, []),
        ("persistentvolumeclaims", "", CLAIM, {**CLAIM, "accessModes": ["ReadWriteMany"]}, ["spec"]),
        ("persistentvolumeclaims", "", CLAIM, {**CLAIM, "resources": {"requests": {"storage": "2Gi"}}}, ["spec"]),
        ("persistentvolumeclaims", "", CLAIM, {**CLAIM, "volumeName": "v", "storageClassName": "c"}, []),
        ("nodes", "", {"providerID": "a"}, {"providerID": "b"}, ["spec.providerID"]),
        ("nodes", "", {}, {"providerID": "b"}, []),
        ("csidrivers", "storage.k8s.io", {}, {"attachRequired": False}, ["spec.attachRequired"]),
    ],
)
def test_validate_update_of_a_spec_finds_what_may_not_change(
    plural: str, group: str, old: Object, new: Object, wrong: list[str]
) -> None:
    assert changed(row(plural, group), {"spec": new}, {"spec": old}) == wrong


@pytest.mark.parametrize(
    ("old", "new", "may"), [("1Gi", "2Gi", True), ("1Gi", "512Mi", False), ("3Gi", "2Gi", True), ("2Gi", "1Gi", False)]
)
def test_validate_update_bound_claim_may_grow_and_not_shrink_to_its_capacity(old: str, new: str, may: bool) -> None:
    before, after = ({"spec": {**CLAIM, "resources": {"requests": {"storage": size}}}} for size in (old, new))
    wrong = changed(row("persistentvolumeclaims"), after, before, phase="Bound", capacity={"storage": "1Gi"})
    assert wrong == ([] if may else ["spec.resources.requests.storage"])


@pytest.mark.parametrize(
    ("old", "new", "status", "wrong"),
    [
        ("a", "b", {"phase": "Bound", "currentVolumeAttributesClassName": "a"}, []),
        ("a", None, {"phase": "Bound", "currentVolumeAttributesClassName": "a"}, ["spec.volumeAttributesClassName"]),
        ("a", "", {"phase": "Bound", "currentVolumeAttributesClassName": "a"}, ["spec.volumeAttributesClassName"]),
        ("a", None, {"phase": "Bound"}, []),
        ("a", "b", {"phase": "Pending"}, ["spec"]),
    ],
)
def test_validate_update_attributes_of_a_bound_claim_change_and_stay(
    old: str, new: str | None, status: Object, wrong: list[str]
) -> None:
    before, after = ({"spec": {**CLAIM, "volumeAttributesClassName": name}} for name in (old, new))
    assert changed(row("persistentvolumeclaims"), after, before, **status) == wrong


def test_validate_update_class_parameters_may_not_change() -> None:
    classes = row("storageclasses", "storage.k8s.io")
    old, new = ({"provisioner": "p", "parameters": {"a": value}} for value in ("1", "2"))
    assert changed(classes, new, old) == ["parameters"]


def test_default_csi_driver_has_upstreams_spec() -> None:
    assert made(row("csidrivers", "storage.k8s.io"), {"spec": {}})["spec"] == {
        "attachRequired": True,
        "fsGroupPolicy": "ReadWriteOnceWithFSType",
        "podInfoOnMount": False,
        "requiresRepublish": False,
        "seLinuxMount": False,
        "storageCapacity": False,
        "volumeLifecycleModes": ["Persistent"],
    }


@pytest.mark.parametrize(
    ("plural", "name", "wrong"),
    [
        ("rolebindings", "s", []),
        ("rolebindings", "S", ["subjects[0].name"]),
        ("clusterrolebindings", "s", ["subjects[0].namespace"]),
    ],
)
def test_validate_create_account_of_a_binding(plural: str, name: str, wrong: list[str]) -> None:
    role = {"kind": "ClusterRole", "name": "r"}
    subjects = [{"kind": "ServiceAccount", "name": name}]
    assert fields(row(plural, "rbac.authorization.k8s.io"), {"roleRef": role, "subjects": subjects}) == wrong


@pytest.mark.parametrize(
    ("plural", "body"),
    [
        ("secrets", {"data": {"a": "?"}}),
        ("events", {"eventTime": "2026-01-01T00:00:00Z"}),
        ("events", {"firstTimestamp": "2026-13-01T00:00:00Z"}),
    ],
)
def test_clean_value_that_upstream_cannot_decode_is_a_wrong_type(plural: str, body: Object) -> None:
    with pytest.raises(WrongType):
        made(row(plural), body)


def test_event_name_may_be_any_path_segment() -> None:
    assert row("events").free_names


@pytest.mark.parametrize(
    ("spec", "source", "reference"),
    [
        ({"dataSource": {"kind": "A", "name": "a"}}, None, None),
        (
            {"dataSource": {"kind": "PersistentVolumeClaim", "name": "a"}},
            "PersistentVolumeClaim",
            "PersistentVolumeClaim",
        ),
        ({"dataSourceRef": {"kind": "A", "name": "a", "apiGroup": "example.com"}}, None, "A"),
        (
            {"dataSourceRef": {"kind": "VolumeSnapshot", "name": "a", "apiGroup": "snapshot.storage.k8s.io"}},
            "VolumeSnapshot",
            "VolumeSnapshot",
        ),
    ],
)
def test_claim_created_with_a_data_source_has_both_fields(
    spec: Object, source: str | None, reference: str | None
) -> None:
    kind = row("persistentvolumeclaims")
    claim = made(kind, {"spec": {**CLAIM, **spec}})
    kind.strategy.prepare_create(claim)
    kinds = [(claim["spec"].get(field) or {}).get("kind") for field in ("dataSource", "dataSourceRef")]
    assert kinds == [source, reference]


@pytest.mark.parametrize(
    ("status", "wrong"),
    [
        ({"capacity": {"storage": "1Gi"}, "allocatedResources": {"storage": "1Gi"}}, []),
        ({"capacity": {"storage": "-1"}}, ["status.capacity[storage]"]),
        ({"allocatedResources": {"cpu": "1"}}, ["status.allocatedResources"]),
        ({"allocatedResourceStatuses": {"storage": "Nope"}}, ["status.allocatedResourceStatuses"]),
        ({"allocatedResourceStatuses": {"example.com/a": "NodeResizePending"}}, []),
    ],
)
def test_claim_status_names_what_is_wrong(status: Object, wrong: list[str]) -> None:
    kind = row("persistentvolumeclaims")
    claim = made(kind, {"spec": CLAIM, "status": status})
    assert [cause.field for cause in kind.strategy.validate_status(claim, claim)] == wrong


METRIC = {"metric": {"name": "m"}}
TARGET = {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}
PODS_TARGET = {"type": "AverageValue", "averageValue": "1"}


@pytest.mark.parametrize(
    ("metric", "wrong"),
    [
        ({"type": "Pods", "pods": {**METRIC, "target": PODS_TARGET}}, []),
        ({}, ["type"]),
        ({"type": "pods"}, ["type"]),
        ({"type": "Pods"}, ["pods"]),
        ({"type": "Pods", "resource": {"name": "cpu", "target": PODS_TARGET}}, ["pods"]),
        (
            {"type": "Pods", "pods": {"target": {}}},
            ["pods.metric.name", "pods.target.type", "pods.target.averageValue"],
        ),
        (
            {"type": "Pods", "pods": {**METRIC, "target": {**PODS_TARGET, "averageValue": "0"}}},
            ["pods.target.averageValue"],
        ),
        (
            {"type": "Pods", "pods": {**METRIC, "target": PODS_TARGET}, "resource": {"name": "cpu"}},
            ["resource"],
        ),
        (
            {"type": "Object", "object": {**METRIC, "target": {"type": "Value"}}},
            ["object.describedObject.kind", "object.describedObject.name", "object.target.averageValue"],
        ),
        (
            {"type": "External", "external": {**METRIC, "target": {**PODS_TARGET, "value": "1"}}},
            ["external.target.value"],
        ),
        (
            {"type": "Resource", "resource": {"target": {"type": "Utilization", "averageUtilization": 0}}},
            ["resource.name", "resource.target.averageUtilization"],
        ),
        (
            {"type": "Resource", "resource": {"name": "cpu", "target": {**PODS_TARGET, "averageUtilization": 1}}},
            ["resource.target.averageValue"],
        ),
        (
            {
                "type": "ContainerResource",
                "containerResource": {"name": "cpu", "container": "A", "target": PODS_TARGET},
            },
            ["containerResource.container"],
        ),
    ],
)
def test_autoscaler_metric_names_what_is_wrong(metric: Object, wrong: list[str]) -> None:
    spec = {"maxReplicas": 1, "scaleTargetRef": TARGET, "metrics": [metric]}
    kind = row("horizontalpodautoscalers", "autoscaling")
    assert fields(kind, {"spec": spec}) == [f"spec.metrics[0].{field}" for field in wrong]


@pytest.mark.parametrize(
    ("rules", "wrong"),
    [
        ({}, []),
        ({"stabilizationWindowSeconds": 3600, "tolerance": "0"}, []),
        ({"stabilizationWindowSeconds": 3601, "tolerance": "-1"}, ["stabilizationWindowSeconds", "tolerance"]),
        ({"stabilizationWindowSeconds": -1, "selectPolicy": "max"}, ["stabilizationWindowSeconds", "selectPolicy"]),
        ({"policies": [{}]}, [f"policies[0].{field}" for field in ("type", "value", "periodSeconds")]),
        ({"policies": [{"type": "Pods", "value": 1, "periodSeconds": 1801}]}, ["policies[0].periodSeconds"]),
    ],
)
def test_autoscaler_behavior_names_what_is_wrong(rules: Object, wrong: list[str]) -> None:
    """Anything was stored, and the controller that reads it ends with an error on each pass."""
    behavior: Object = {"scaleUp": rules}
    spec = {"maxReplicas": 1, "scaleTargetRef": TARGET, "behavior": behavior}
    kind = row("horizontalpodautoscalers", "autoscaling")
    kind.strategy.default({"spec": spec})
    assert fields(kind, {"spec": spec}) == [f"spec.behavior.scaleUp.{field}" for field in wrong]
    assert [policy["type"] for policy in behavior["scaleDown"]["policies"]] == ["Percent"]


def test_default_autoscaler_without_metrics_measures_the_cpu() -> None:
    obj: Object = {"metadata": {"name": "a"}, "spec": {"maxReplicas": 2}}
    row("horizontalpodautoscalers", "autoscaling").strategy.default(obj)
    (metric,) = obj["spec"]["metrics"]
    assert (metric["type"], metric["resource"]["name"]) == ("Resource", "cpu")


@pytest.mark.parametrize("plural", ["persistentvolumes", "persistentvolumeclaims"])
def test_default_status_without_a_phase_is_pending(plural: str) -> None:
    obj: Object = {"metadata": {"name": "a"}, "status": None}
    row(plural).strategy.default_status(obj)
    assert obj["status"] == {"phase": "Pending"}


@pytest.mark.parametrize(
    ("plural", "group", "body", "cells"),
    [
        ("serviceaccounts", "", {}, ["a"]),
        (
            "csidrivers",
            "storage.k8s.io",
            {"spec": {"tokenRequests": [{"audience": "x"}, {"audience": ""}], "requiresRepublish": True}},
            ["a", True, False, False, "x,", True, "Persistent"],
        ),
        (
            "devicetaintrules",
            "resource.k8s.io",
            {"spec": {"taint": {"key": "k", "effect": "NoExecute"}}},
            ["a", "k", "", "NoExecute", "<unknown>"],
        ),
    ],
)
def test_columns_are_those_of_kubectl(plural: str, group: str, body: Object, cells: list[Any]) -> None:
    kind = row(plural, group)
    assert [column.cell(made(kind, body)) for column in kind.columns][:-1] == cells


def test_binding_to_a_role_that_is_no_path_segment_is_rejected() -> None:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "a/b"}
    assert fields(row("clusterrolebindings", "rbac.authorization.k8s.io"), {"roleRef": role}) == ["roleRef.name"]
