"""resource.k8s.io with an unmodified kubectl: one set of objects in every version, patches and rules."""

import json
from typing import Any

import pytest

from supervisor.cli.main import main
from tests.support.apiserver_plane import Plane
from tests.support.dra_objects import device, patch_object, slice_object
from tests.support.waiting import until

SLICE = """
apiVersion: resource.k8s.io/v1beta1
kind: ResourceSlice
metadata: {name: old}
spec:
  driver: d.example.com
  pool: {name: p, generation: 1, resourceSliceCount: 1}
  allNodes: true
  devices:
  - name: dev-0
    basic:
      attributes: {model: {string: A}, firmware: {version: 1.2.0}}
      capacity: {memory: {value: 1536Mi}}
"""
PATCH = """
apiVersion: resource.k8s.io/v1alpha3
kind: ResourceSlicePatch
metadata: {name: fix}
spec:
  devices:
    priority: 3
    filter:
      driver: d.example.com
      selectors: [{cel: {expression: 'device.attributes["d.example.com"].model == "A"'}}]
    attributes:
      d.example.com/model: {"null": {}}
      d.example.com/zone: {string: z}
    taints: [{key: k, effect: NoSchedule}]
"""
RULE = """
apiVersion: resource.k8s.io/v1alpha3
kind: DeviceTaintRule
metadata: {name: out}
spec:
  deviceSelector: {driver: d.example.com}
  taint: {key: k, effect: NoExecute}
"""


def bare(obj: dict[str, Any]) -> dict[str, Any]:
    """Without what the server sets."""
    return {**obj, "metadata": {"name": obj["metadata"]["name"]}}


def test_one_slice_in_three_versions(plane: Plane) -> None:
    plane.kubectl("apply", "-f", "-", stdin=SLICE)
    shown = {}
    for version in ("v1", "v1beta2", "v1beta1"):
        found = json.loads(plane.kubectl("get", f"resourceslices.{version}.resource.k8s.io", "old", "-o", "json"))
        assert found["apiVersion"] == f"resource.k8s.io/{version}"
        shown[version] = found["spec"]["devices"][0]
    assert shown["v1"] == shown["v1beta2"] == {"name": "dev-0", **shown["v1beta1"]["basic"]}
    assert "unchanged" in plane.kubectl("apply", "-f", "-", stdin=SLICE)
    changed = plane.kubectl(
        "patch", "resourceslice", "old", "--type=merge", "-p", '{"spec":{"pool":{"name":"q"}}}', check=False
    )
    assert 'spec.pool.name: Invalid value: "q": field is immutable' in changed


def test_patches_are_applied_explained_and_counted(plane: Plane) -> None:
    assert "created" in plane.kubectl("apply", "-f", "-", stdin=PATCH)
    plane.kubectl("apply", "-f", "-", stdin=PATCH)  # no time for the taint: it keeps the one it has
    stored = json.loads(plane.kubectl("get", "resourceslicepatch", "fix", "-o", "json"))
    assert stored["metadata"]["generation"] == 1
    assert stored["spec"]["devices"]["attributes"]["d.example.com/model"] == {"null": {}}
    assert stored["spec"]["devices"]["taints"][0]["timeAdded"]
    table = plane.kubectl("get", "resourceslicepatches").splitlines()
    assert table[0].split() == ["NAME", "PRIORITY", "FILTER", "AGE"]
    assert table[1].split()[:3] == ["fix", "3", "driver=d.example.com,cel(1)"]
    told = plane.kubectl("explain", "resourceslicepatch.spec.devices.attributes")
    assert "null\t<NullValue>" in told
    assert "A CEL expression" in plane.kubectl("explain", "resourceslicepatch.spec.devices.filter.selectors.cel")
    refused = plane.kubectl("apply", "-f", "-", stdin=PATCH.replace('== "A"', "== "), check=False)
    assert "spec.devices.filter.selectors[0].cel.expression: Invalid value" in refused
    assert "Syntax error" in refused


def test_the_patched_view_of_a_running_api(plane: Plane, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", "--patched", "--kubeconfig", str(plane.root / "kubeconfig")]) == 0
    found = capsys.readouterr().out.splitlines()
    assert found[1].split()[0] == "d.example.com/p/dev-0"
    assert any(line.split()[-2:] == ["fix", "-"] and '"z"' in line for line in found)
    assert any("d.example.com/model" in line and "(removed)" in line for line in found)


def test_managers_share_a_patch(plane: Plane) -> None:
    mine, theirs = (json.dumps(bare(patch_object("shared", attrs))) for attrs in ({"d/x": 1}, {"d/y": None}))
    for manager, text in (("me", mine), ("you", theirs)):
        plane.kubectl("apply", "--server-side", f"--field-manager={manager}", "-f", "-", stdin=text)
    stored = json.loads(plane.kubectl("get", "resourceslicepatch", "shared", "-o", "json"))
    assert stored["spec"]["devices"]["attributes"] == {"d/x": {"int": 1}, "d/y": {"null": {}}}
    assert stored["metadata"]["generation"] == 2
    changed = mine.replace('"int": 1', '"int": 2')
    told = plane.kubectl("apply", "--server-side", "--field-manager=you", "-f", "-", stdin=changed, check=False)
    assert ".spec.devices.attributes.d/x" in told


def test_rules_in_both_of_their_versions(plane: Plane) -> None:
    plane.kubectl("apply", "-f", "-", stdin=RULE)
    stored = json.loads(plane.kubectl("get", "devicetaintrules.v1beta2.resource.k8s.io", "out", "-o", "json"))
    stored["status"] = {"conditions": [{"type": "EvictionInProgress", "status": "False", "reason": "NotStarted",
                                        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}  # fmt: skip
    plane.kubectl("replace", "--subresource=status", "-f", "-", stdin=json.dumps(stored))
    found = json.loads(plane.kubectl("get", "devicetaintrules.v1alpha3.resource.k8s.io", "out", "-o", "json"))
    assert found["status"]["conditions"][0]["reason"] == "NotStarted"
    assert found["metadata"]["generation"] == 1


def test_a_whole_slice_of_devices_is_checked(plane: Plane) -> None:
    many = [device(f"d{number}", {"x": number}, {"c": "1"}) for number in range(128)]
    plane.kubectl("create", "-f", "-", stdin=json.dumps(bare(slice_object("many", many))))
    told = plane.kubectl(
        "create", "-f", "-", stdin=json.dumps(bare(slice_object("more", [*many, device("z")]))), check=False
    )
    assert "spec.devices: Too many: 129: must have at most 128 items" in told


CLAIM = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: owned}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: any}}]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: node-driver}
rules:
- {apiGroups: [resource.k8s.io], resources: [resourceclaims], verbs: [get]}
- {apiGroups: [resource.k8s.io], resources: [resourceclaims/status], verbs: [get, patch]}
- apiGroups: [resource.k8s.io]
  resources: [resourceclaims/driver]
  resourceNames: [d.example.com]
  verbs: ["associated-node:patch"]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: node-driver}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: node-driver}
subjects: [{kind: ServiceAccount, name: driver, namespace: default}]
"""


def test_driver_of_one_node_cannot_write_devices_of_another(plane: Plane) -> None:
    plane.kubectl("apply", "-f", "-", stdin=CLAIM)

    def patched(status: dict[str, Any], *flags: str) -> str:
        body = json.dumps({"status": status})
        words = ("patch", "resourceclaim", "owned", "--subresource=status", "--type=merge", "-p", body)
        return plane.kubectl(*words, *flags, check=False)

    def as_driver(node: str) -> tuple[str, str]:
        extra = f"--as-user-extra=authentication.kubernetes.io/node-name={node}"
        return "--as=system:serviceaccount:default:driver", extra

    device = {"driver": "d.example.com", "pool": "n1", "device": "dev-0"}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    results = [{"request": "r", **device}]
    allocation = {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [term]}}
    text = 'status: Forbidden: changing status.allocation or status.reservedFor requires resource="resourceclaims/bind'
    until("the role counts", lambda: text in patched({"allocation": allocation}, *as_driver("n1")), every=0.2)
    assert "patched" in patched({"allocation": allocation})
    refused = patched({"devices": [device]}, *as_driver("n2"))
    assert 'changing status.devices requires resource="resourceclaims/driver", verb="[arbitrary-node:patch]"' in refused
    assert "patched" in patched({"devices": [device]}, *as_driver("n1"))
    assert "Forbidden" in patched({"devices": None}, *as_driver("n2"))
    assert "patched" in patched({"allocation": None})
    assert not json.loads(plane.kubectl("get", "resourceclaim", "owned", "-o", "json")).get("status")
