"""The documents of a manifest: which are refused, with what error, and the pod of its DaemonSet."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from supervisor.cli.main import main
from supervisor.conform.manifest import install
from supervisor.conform.manifest.documents import (
    HostPaths,
    Manifest,
    ManifestUnusable,
    check_commands,
    pod_of,
    read_manifest,
)
from supervisor.conform.manifest.install import apply_others, check_manifest
from supervisor.conform.manifest.pods import ContainerEnd, ended, stuck
from supervisor.testing.api import ApiError

PATHS = HostPaths(Path("/tmp/np1"), Path("/tmp/np2/cdi"))


def daemon_set(*volumes: str, **spec: Any) -> dict[str, Any]:
    found = [{"name": f"v{at}", "hostPath": {"path": path}} for at, path in enumerate(volumes)]
    containers = [{"name": "plugin", "image": "example.com/plugin:1", "command": ["plugin"]}]
    pod = {"containers": containers, "volumes": [*found, {"name": "e", "emptyDir": {}}], **spec}
    template = {"metadata": {"labels": {"app": "plugin"}, "creationTimestamp": None}, "spec": pod}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "plugin", "namespace": "gpu"},
        "spec": {"template": template},
    }


def named(kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}


def manifest(*objects: dict[str, Any], path: Path) -> Manifest:
    path.write_text("\n---\n".join(map(json.dumps, objects)))
    return read_manifest(str(path))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "manifest.yaml"


def test_others_are_applied_after_what_they_need(path: Path) -> None:
    items = [named("ConfigMap", "c"), daemon_set("/var/lib/kubelet"), named("Role", "r"), named("Namespace", "gpu")]
    found = manifest({"kind": "List", "apiVersion": "v1", "items": items}, {}, named("ServiceAccount", "s"), path=path)
    assert [other["kind"] for other in found.others] == ["Namespace", "ServiceAccount", "ConfigMap", "Role"]
    assert (found.title, found.namespace) == ("DaemonSet gpu/plugin", "gpu")


@pytest.mark.parametrize(
    ("objects", "text"),
    [
        ([named("Deployment", "d"), named("ConfigMap", "c")], "no DaemonSet, but ConfigMap, Deployment"),
        ([], "no DaemonSet, but nothing"),
        ([daemon_set(volumes=["data"])], "DaemonSet gpu/plugin: json: cannot unmarshal string into Go struct field"),
        ([{**daemon_set(), "spec": []}], "DaemonSet gpu/plugin: json: cannot unmarshal array into Go struct field"),
        ([daemon_set(), {**daemon_set(), "metadata": {"name": "b"}}], "2 DaemonSets, plugin, b: leave one in it"),
        ([{"kind": "ConfigMap"}], "no object with kind and metadata.name"),
        (["text"], "no object with kind and metadata.name"),
    ],
)
def test_manifest_without_one_daemon_set_is_an_error(objects: list[Any], text: str, path: Path) -> None:
    with pytest.raises(ManifestUnusable, match=text):
        manifest(*objects, path=path)


def test_file_that_cannot_be_read_is_an_error_with_code_two(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conform", "--manifest", str(path)]) == 2
    assert f"--manifest {path}: No such file or directory" in capsys.readouterr().err
    path.write_text("{")
    with pytest.raises(ManifestUnusable, match=r"manifest\.yaml: while parsing"):
        read_manifest(str(path))


def test_pod_is_on_the_node_with_paths_of_this_machine(path: Path) -> None:
    places = ("/var/lib/kubelet/device-plugins/", "/var/run/cdi", "/etc/cdi/x", "/run/cdi", "/var/lib/kubelets", "/dev")
    found = manifest(daemon_set(*places, nodeSelector={"gpu": "true"}, restartPolicy="Always"), path=path)
    pod = pod_of(found, "n1", PATHS)
    spec = pod["spec"]
    here = [volume["hostPath"]["path"] for volume in spec["volumes"] if "hostPath" in volume]
    assert here == [
        "/tmp/np1/device-plugins",
        "/tmp/np2/cdi",
        "/tmp/np2/cdi/x",
        "/tmp/np2/cdi",
        "/var/lib/kubelets",
        "/dev",
    ]
    assert (spec["nodeName"], spec["restartPolicy"], "nodeSelector" in spec) == ("n1", "Never", False)
    assert pod["metadata"] == {"labels": {"app": "plugin"}, "namespace": "gpu"}
    assert found.daemon_set["spec"]["template"]["spec"]["restartPolicy"] == "Always", "the manifest stays as it is"


def test_daemon_set_that_cannot_reach_the_kubelet_is_an_error(path: Path) -> None:
    found = manifest(daemon_set("/opt/kubelet/device-plugins", "/"), path=path)
    with pytest.raises(ManifestUnusable, match="DaemonSet gpu/plugin: no hostPath volume is below /var/lib/kubelet"):
        pod_of(found, "n1", PATHS)
    assert pod_of(found, "n1", HostPaths(Path("/opt/kubelet"), PATHS.cdi))["kind"] == "Pod"
    with pytest.raises(ManifestUnusable, match="its template has no containers"):
        pod_of(manifest(daemon_set("/var/lib/kubelet", containers=[]), path=path), "n1", PATHS)


def test_container_without_a_command_needs_its_image(path: Path) -> None:
    containers = [{"name": "plugin", "image": "example.com/plugin:1", "args": ["--x"]}]
    found = manifest(daemon_set("/var/lib/kubelet", containers=containers), path=path)
    with pytest.raises(ManifestUnusable, match=r"container plugin has no command, and its image example.com/plugin:1"):
        check_commands(found, pod_of(found, "n1", PATHS))
    check_manifest(found, PATHS.kubelet, runtime="unix:///run/containerd/containerd.sock", image="")


def test_embedded_runtime_needs_root_for_mounts(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = manifest(daemon_set("/var/lib/kubelet"), path=path)
    for uid, image in ((0, ""), (0, "plugin.tar")):
        monkeypatch.setattr(os, "geteuid", lambda uid=uid: uid)
        check_manifest(found, PATHS.kubelet, runtime="", image=image)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ManifestUnusable, match="needs root"):
        check_manifest(found, PATHS.kubelet, runtime="", image="")


class Definitions:
    """An API that serves a defined kind a number of reads after its definition."""

    def __init__(self, reads: int) -> None:
        self.reads = reads
        self.applied: list[str] = []

    def path_of(self, obj: dict[str, Any]) -> str:
        return str(obj["kind"])

    def apply(self, obj: dict[str, Any], manager: str) -> None:
        if obj["kind"] == "Gadget" and self.reads:
            raise ApiError(404, "NotFound", "the API serves no kind 'Gadget'")
        self.applied.append(obj["kind"])

    def get(self, path: str) -> dict[str, Any]:
        self.reads = max(0, self.reads - 1)
        condition = {"type": "Established", "status": str(not self.reads), "message": "its names are taken"}
        return {"items": [], "status": {"conditions": [condition] if self.reads < 9 else []}}


def test_object_is_applied_once_the_definition_of_its_kind_is_established(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = [named("Gadget", "g"), named("CustomResourceDefinition", "gadgets.example.com")]
    found = manifest(*kinds, daemon_set("/var/lib/kubelet"), path=path)
    monkeypatch.setattr(install, "POLL_S", 0.0)
    api: Any = Definitions(12)
    apply_others(api, found)
    assert [*api.applied] == ["Namespace", "CustomResourceDefinition", "Gadget"]
    monkeypatch.setattr(install, "ESTABLISHED_S", 0.0)
    api = Definitions(5)
    with pytest.raises(ManifestUnusable, match=r"gadgets\.example\.com is not Established within 0 s: its names"):
        apply_others(api, found)


@pytest.mark.parametrize(
    "words",
    [
        ("--manifest", "f", "--", "true"),
        ("--image", "f", "--", "true"),
        ("--manifest", "f", "--image", "i", "--runtime", "r"),
    ],
)
def test_flags_of_a_manifest_go_with_nothing_else(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conform", *words]) == 2
    assert "--manifest" in (error := capsys.readouterr().err) or "embedded" in error


def pod(*states: dict[str, Any], init: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    names = [f"c{at}" for at in range(len(states))]
    rows = [{"name": name, "state": state} for name, state in zip(names, states, strict=True)]
    inits = [{"name": f"i{at}", "state": state} for at, state in enumerate(init)]
    status = {"containerStatuses": rows, "initContainerStatuses": inits}
    return {"spec": {"containers": [{"name": name} for name in names]}, "status": status}


def test_pod_has_ended_with_its_first_container_and_with_a_failed_init_container() -> None:
    over, failed = {"terminated": {"exitCode": 0}}, {"terminated": {"exitCode": 3, "message": "no\nGPU"}}
    assert ended(pod({"running": {}}, {"waiting": {}}, init=(over,))) is None
    assert ended(pod({"running": {}}, over)) == ContainerEnd(0, "")
    assert ended(pod({"waiting": {}}, init=(failed,))) == ContainerEnd(3, "no GPU")


def test_container_that_waits_in_vain_is_named() -> None:
    assert stuck(pod({"waiting": {"reason": "ContainerCreating"}})) == ""
    for reason in ("ErrImagePull", "RegistryUnavailable"):
        waits = pod({"waiting": {"reason": reason, "message": "not found"}})
        assert stuck(waits) == f"container c0: {reason}: not found"
