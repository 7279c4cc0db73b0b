"""Sources of a pod's volumes."""

from typing import Any

import pytest

from protocols.kinds.pods.pods import PODS
from tests.support.pod_faults import faults, pod

Object = dict[str, Any]
ISCSI, IQN = {"targetPortal": "10.0.0.1", "iqn": "iqn.2026-01.com.example:d", "lun": 0}, "iqn.2026-01.com.example:d"
AZURE = {"diskName": "d", "diskURI": "https://a.example.com/d.vhd"}
SOURCES: list[tuple[Object, str]] = [
    ({"iscsi": {**ISCSI, "secretRef": {}}}, ""),
    ({"iscsi": {**ISCSI, "initiatorName": IQN}}, ""),
    ({"iscsi": {**ISCSI, "iqn": "x"}}, "Invalid iscsi.iqn"),
    ({"iscsi": {**ISCSI, "iqn": "iqn.2026-01.com.example"}}, "Invalid iscsi.iqn"),
    ({"iscsi": {**ISCSI, "initiatorName": "eui.0"}}, "Invalid iscsi.initiatorname"),
    ({"iscsi": {**ISCSI, "targetPortal": "p" * 63, "initiatorName": IQN}}, "Invalid name"),
    ({"fc": {"targetWWNs": ["a"], "wwids": ["b"], "lun": 256}}, "Invalid fc.targetWWNs, Invalid fc.lun"),
    ({"quobyte": {"registry": "[::1]:80,h:1", "volume": "v"}}, ""),
    ({"quobyte": {"registry": "h,h,h", "volume": "v"}}, "Invalid quobyte.registry"),
    ({"quobyte": {"registry": "h:1", "volume": "v", "tenant": "t" * 65}}, "Required quobyte.tenant"),
    ({"flexVolume": {"driver": "d", "options": {"K8s.io/a": "b", "a": "b"}}}, "Invalid flexVolume.options[K8s.io/a]"),
    ({"azureDisk": AZURE}, ""),
    ({"azureDisk": {**AZURE, "kind": "Managed"}}, "NotSupported azureDisk.diskURI"),
    ({"azureDisk": {**AZURE, "cachingMode": "X"}}, "NotSupported azureDisk.cachingMode"),
    ({"storageos": {"volumeName": "A"}}, "Invalid storageos.volumeName"),
    ({"gcePersistentDisk": {"pdName": "d", "partition": 256}}, "Invalid persistentDisk.partition"),
    ({"hostPath": {"path": "/"}, "cephfs": {"monitors": ["m"]}}, "Forbidden cephFS"),
    ({"projected": {"sources": [{"serviceAccountToken": {"path": "../t"}}]}}, "Invalid projected.path"),
]


@pytest.mark.parametrize(("source", "found"), SOURCES)
def test_source_of_a_volume_with_one_fault_is_rejected_at_its_field(source: Object, found: str) -> None:
    given = faults(serviceAccountName="a", volumes=[{"name": "v", **source}])
    assert ", ".join(given).replace("volumes[0].", "") == found


def test_claim_that_the_pod_creates_is_named_by_no_other_volume() -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}
    own = {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}
    other = {"name": "w", "persistentVolumeClaim": {"claimName": "a-v"}}
    assert faults(volumes=[own, other]) == ["Invalid volumes[1].persistentVolumeClaim.claimName"]


def test_second_file_at_a_path_shows_what_it_is_from() -> None:
    files, field = [{"key": "k", "path": "p"}], {"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}
    sources = [{"secret": {"name": "s", "items": files}}, {"configMap": {"name": "m", "items": files}}]
    projection = {"name": "v", "projected": {"sources": [*sources, {"downwardAPI": {"items": [field]}}]}}
    causes = PODS.strategy.validate_create(pod(volumes=[projection]))
    text = "conflicting duplicate paths"
    assert [cause.message for cause in causes] == [f'Invalid value: "{name}": {text}' for name in ("m", "p")]
