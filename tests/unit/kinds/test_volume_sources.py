"""Sources of persistent volumes: what each needs, and what of them may change."""

import copy
from typing import Any

import pytest

from actors.apiserver.table import TABLE

Object = dict[str, Any]
STRATEGY = TABLE.of("persistentvolumes").strategy
CSI: Object = {"driver": "d.example.com", "volumeHandle": "h"}
REST: Object = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
NODES: Object = {
    "required": {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]}
}
IQN = "iqn.2020-01.com.example:a"
MANY = "Forbidden: may not specify more than 1 volume type"


def volume(spec: Object) -> Object:
    obj = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": {**REST, **spec}}
    obj = copy.deepcopy(obj)
    STRATEGY.default(obj)
    STRATEGY.prepare_create(obj)
    return obj


def faults(spec: Object) -> list[str]:
    return [f"{cause.field}: {cause.message}" for cause in STRATEGY.validate_create(volume(spec))]


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"cephfs": {"monitors": []}}, ["cephfs.monitors: Required value"]),
        ({"rbd": {}}, ["rbd.monitors: Required value", "rbd.image: Required value"]),
        ({"scaleIO": {"gateway": "g", "system": "s"}}, ["scaleIO.volumeName: Required value"]),
        ({"storageos": {}}, ["storageos.volumeName: Required value"]),
        ({"storageos": {"volumeName": "v", "secretRef": {"name": "s"}}},
         ["storageos.secretRef.namespace: Required value"]),
        ({"cinder": {"volumeID": "v", "secretRef": {}}},
         ["cinder.secretRef.name: Required value", "cinder.secretRef.namespace: Required value"]),
        ({"iscsi": {"iqn": "x", "lun": 1, "targetPortal": "p"}},
         ['iscsi.iqn: Invalid value: "x": must be valid format']),
        ({"iscsi": {"iqn": IQN, "lun": 256, "targetPortal": "p", "secretRef": {}}},
         ["iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive",
          "iscsi.secretRef.name: Required value"]),
        ({"iscsi": {"iqn": IQN, "lun": 1, "targetPortal": "p", "secretRef": {"name": "s"}}}, []),
        ({"azureFile": {"secretName": "s", "shareName": "n", "secretNamespace": ""}},
         ["azureFile.secretNamespace: Required value"]),
        ({"glusterfs": {"endpoints": "e", "path": "p", "endpointsNamespace": ""}},
         ['glusterfs.endpointsNamespace: Invalid value: "": if the endpointnamespace is set, it must be a valid '
          "namespace name"]),
        ({"local": {"path": "/a/../b"}, "nodeAffinity": NODES},
         ["local.path: Invalid value: \"/a/../b\": must not contain '..'"]),
        ({"local": {"path": "/a"}, "nodeAffinity": NODES}, []),
        ({"local": {"path": "/a"}}, ["nodeAffinity: Required value: Local volume requires node affinity"]),
        ({"hostPath": {"path": "/a", "type": "X"}},
         ['hostPath.type: Unsupported value: "X": supported values: "", "BlockDevice", "CharDevice", "Directory", '
          '"DirectoryOrCreate", "File", "FileOrCreate", "Socket"']),
        ({"hostPath": {"path": "//.."}, "persistentVolumeReclaimPolicy": "Retain"},
         ["hostPath.path: Invalid value: \"//..\": must not contain '..'"]),
        ({"hostPath": {"path": "//"}, "persistentVolumeReclaimPolicy": "Recycle"},
         ["persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'"]),
        ({"gcePersistentDisk": {}}, ["persistentDisk.pdName: Required value"]),
        ({"hostPath": {"path": "/a"}, "gcePersistentDisk": {}}, [f"gcePersistentDisk: {MANY}"]),
        ({"hostPath": {"path": "/a"}, "cephfs": {}}, [f"cephFS: {MANY}"]),
        ({"hostPath": {"path": "/a"}, "flexVolume": {"driver": "d", "options": {"x.k8s.io/a": "b"}}},
         ['flexVolume.options[x.k8s.io/a]: Invalid value: "x.k8s.io/a": kubernetes.io and k8s.io namespaces are '
          "reserved"]),
        ({"csi": {**CSI, "driver": "", "nodePublishSecretRef": {}}},
         ["csi.driver: Required value", "csi.nodePublishSecretRef.name: Required value",
          "csi.nodePublishSecretRef.namespace: Required value"]),
        ({"csi": {**CSI, "driver": "D." + "x" * 62}}, ["csi.driver: Too long: may not be more than 63 bytes"]),
    ],
)  # fmt: skip
def test_a_source_with_faults(spec: Object, found: list[str]) -> None:
    assert faults(spec) == [f"spec.{fault}" for fault in found]


@pytest.mark.parametrize("name", ["a..b", "a.-b", "-a", "a_b"])
def test_a_driver_is_a_subdomain_in_any_case(name: str) -> None:
    (text,) = faults({"csi": {**CSI, "driver": name}})
    assert text.startswith(f'spec.csi.driver: Invalid value: "{name}": a lowercase RFC 1123 subdomain must consist')
    assert faults({"csi": {**CSI, "driver": "Disk.Example.COM"}}) == []


def test_names_of_secrets_are_checked() -> None:
    secret = {"name": "A", "namespace": "b.c"}
    found = [text.split(":")[0] for text in faults({"csi": {**CSI, "controllerExpandSecretRef": secret}})]
    assert found == [f"spec.csi.controllerExpandSecretRef.{field}" for field in ("name", "namespace")]


def changed(old: Object, new: Object) -> list[str]:
    return [cause.field for cause in STRATEGY.validate_update(volume(new), volume(old))]


def test_a_source_may_gain_the_secret_of_its_expansion_once() -> None:
    secret, odd = {"name": "s", "namespace": "n"}, {"name": "s"}
    gained, other = ({"csi": {**CSI, "controllerExpandSecretRef": {**secret, "name": name}}} for name in "ab")
    assert changed({"csi": CSI}, gained) == []
    assert changed(gained, other) == ["spec.persistentvolumesource"]
    assert changed(gained, {"csi": CSI}) == ["spec.persistentvolumesource"]
    wrong = changed({"csi": CSI}, {"csi": {**CSI, "controllerExpandSecretRef": odd}})
    assert wrong == ["spec.csi.controllerExpandSecretRef.namespace"]


def test_sources_have_defaults_that_are_no_change_of_a_stored_one() -> None:
    disk = {"rbd": {"monitors": ["m"], "image": "i"}}
    assert volume(disk)["spec"]["rbd"] == {
        **disk["rbd"],
        "pool": "rbd",
        "user": "admin",
        "keyring": "/etc/ceph/keyring",
    }
    assert volume({"iscsi": {}})["spec"]["iscsi"] == {"iscsiInterface": "default"}
    assert volume({"hostPath": {}})["spec"]["hostPath"] == {"type": ""}
    stored = volume(disk)
    stored["spec"]["rbd"] = disk["rbd"]
    assert STRATEGY.validate_update(volume(disk), stored) == []


def test_a_stored_source_is_not_checked_again() -> None:
    stored = {"iscsi": {"iqn": "x", "lun": 1, "targetPortal": "p"}}
    assert changed(stored, stored) == []
    assert changed(stored, {**stored, "accessModes": ["X"]}) == ["spec.accessModes"]
