"""The resources that are stored for those who read them: kubectl's columns, defaults, and what is refused."""

import json
from typing import Any

import pytest

from tests.support.apiserver_plane import Plane


def made(kind: str, version: str, **parts: Any) -> str:
    return json.dumps({"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, **parts})


ACCESS = {"accessModes": ["ReadWriteOnce"]}
SIZED = {"storage": "1Gi"}
TEMPLATE = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
SELECTED = {"template": TEMPLATE, "selector": {"matchLabels": {"app": "a"}}}
ONCE = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
OBJECTS = {
    "services": (
        made("Service", "v1", spec={"clusterIP": "10.96.0.9", "ports": [{"port": 80}], "selector": {"a": "b"}}),
        "x ClusterIP 10.96.0.9 <none> 80/TCP",
    ),
    "endpoints": (
        made("Endpoints", "v1", subsets=[{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]),
        "x 10.0.0.1:80",
    ),
    "endpointslices": (
        made("EndpointSlice", "discovery.k8s.io/v1", addressType="IPv4", endpoints=[{"addresses": ["10.0.0.1"]}]),
        "x IPv4 <unset> 10.0.0.1",
    ),
    "persistentvolumes": (
        made("PersistentVolume", "v1", spec={**ACCESS, "capacity": SIZED, "hostPath": {"path": "/x"}}),
        "x 1Gi RWO Retain Pending",
    ),
    "persistentvolumeclaims": (
        made("PersistentVolumeClaim", "v1", spec={**ACCESS, "resources": {"requests": SIZED}}),
        "x Pending",
    ),
    "storageclasses": (
        made("StorageClass", "storage.k8s.io/v1", provisioner="example.com/p"),
        "x example.com/p Delete Immediate false",
    ),
    "csinodes": (made("CSINode", "storage.k8s.io/v1", spec={"drivers": [{"name": "d", "nodeID": "n"}]}), "x 1"),
    "csidrivers": (made("CSIDriver", "storage.k8s.io/v1", spec={}), "x true false false"),
    "priorityclasses": (made("PriorityClass", "scheduling.k8s.io/v1", value=7), "x 7 false"),
    "runtimeclasses": (made("RuntimeClass", "node.k8s.io/v1", handler="h"), "x h"),
    "replicationcontrollers": (made("ReplicationController", "v1", spec={"template": TEMPLATE}), "x 1 0 0"),
    "podtemplates": (made("PodTemplate", "v1", template=TEMPLATE), "x c i app=a"),
    "controllerrevisions": (made("ControllerRevision", "apps/v1", data={"a": 1}, revision=2), "x <none> 2"),
    "daemonsets": (made("DaemonSet", "apps/v1", spec=SELECTED), "x 0 0 0 0 0 <none>"),
    "deployments": (made("Deployment", "apps/v1", spec=SELECTED), "x 0/1 0 0"),
    "replicasets": (made("ReplicaSet", "apps/v1", spec={**SELECTED, "replicas": 3}), "x 3 0 0"),
    "statefulsets": (made("StatefulSet", "apps/v1", spec=SELECTED), "x 0/1"),
    "jobs": (made("Job", "batch/v1", spec={"template": ONCE}), "x Running 0/1"),
    "cronjobs": (
        made("CronJob", "batch/v1", spec={"schedule": "0 * * * *", "jobTemplate": {"spec": {"template": ONCE}}}),
        "x 0 * * * * <none> False 0 <none>",
    ),
    "networkpolicies": (
        made("NetworkPolicy", "networking.k8s.io/v1", spec={"podSelector": {"matchLabels": {"app": "a"}}}),
        "x app=a",
    ),
    "poddisruptionbudgets": (made("PodDisruptionBudget", "policy/v1", spec={"minAvailable": "50%"}), "x 50% N/A 0"),
    "csistoragecapacities": (
        made("CSIStorageCapacity", "storage.k8s.io/v1", storageClassName="fast", capacity="1Gi"),
        "x 2",
    ),
    "volumeattachments": (
        made(
            "VolumeAttachment",
            "storage.k8s.io/v1",
            spec={"attacher": "a.example.com", "nodeName": "n1", "source": {"persistentVolumeName": "pv"}},
        ),
        "x a.example.com pv n1 false",
    ),
}


@pytest.mark.parametrize("resource", OBJECTS)
def test_each_is_made_shown_changed_and_deleted(plane: Plane, resource: str) -> None:
    body, shown = OBJECTS[resource]
    plane.kubectl("create", "-f", "-", stdin=body)
    row = " ".join(plane.kubectl("get", resource, "x").splitlines()[1].split())
    assert row.startswith(shown)
    plane.kubectl("label", resource, "x", "a=b")
    plane.kubectl("delete", resource, "x")


def test_network_policy_of_a_chart_is_applied_with_a_warning(plane: Plane) -> None:
    port, peers = {"port": "metrics"}, [{"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "a"}}}]
    spec: dict[str, Any] = {"podSelector": {}, "ingress": [{"from": peers, "ports": [port]}], "egress": [{}]}
    body = made("NetworkPolicy", "networking.k8s.io/v1", spec=spec)
    told = plane.kubectl("apply", "-f", "-", stdin=body, check=False)
    assert "Warning: nodeplane stores this NetworkPolicy but does not enforce it" in told
    assert "networkpolicy.networking.k8s.io/x created" in told
    rule = {"from": peers, "ports": [{**port, "protocol": "TCP"}]}
    stored = json.loads(plane.kubectl("get", "netpol", "x", "-o", "json"))
    assert stored["spec"] == {**spec, "ingress": [rule], "policyTypes": ["Ingress", "Egress"]}
    assert stored["metadata"]["generation"] == 1
    again = plane.kubectl("apply", "-f", "-", stdin=body, check=False)
    assert "Warning" not in again
    assert json.loads(plane.kubectl("get", "netpol", "x", "-o", "json")) == stored
    changed = made("NetworkPolicy", "networking.k8s.io/v1", spec={**spec, "egress": [{"to": [{}]}]})
    told = plane.kubectl("apply", "-f", "-", stdin=changed, check=False)
    assert "spec.egress[0].to[0]: Required value: must specify a peer" in told
    plane.kubectl("delete", "netpol", "x")


def test_what_is_refused(plane: Plane) -> None:
    for body, told in (
        (made("Service", "v1", spec={}), "spec.ports: Required value"),
        (made("Service", "v1", spec={"ports": [{"port": 0}]}), "must be between 1 and 65535"),
        (made("PersistentVolumeClaim", "v1", spec={}), "spec.accessModes: Required value"),
        (made("StorageClass", "storage.k8s.io/v1"), "provisioner: Required value"),
        (made("PriorityClass", "scheduling.k8s.io/v1", value=2_000_000_000), "maximum allowed value"),
        (made("RuntimeClass", "node.k8s.io/v1"), "handler: Required value"),
        (made("ReplicaSet", "apps/v1", spec={"template": TEMPLATE}), "spec.selector: Required value"),
        (made("ReplicaSet", "apps/v1", spec={**SELECTED, "replicas": -1}), "must be greater than or equal to 0"),
        (
            made("StatefulSet", "apps/v1", spec={**SELECTED, "selector": {"matchLabels": {"app": "b"}}}),
            "`selector` does not match template `labels`",
        ),
        (made("VolumeAttachment", "storage.k8s.io/v1", spec={"attacher": "a"}), "spec.source: Required value"),
    ):
        assert told in plane.kubectl("create", "--validate=false", "-f", "-", stdin=body, check=False)
