"""Images, limits and isolation as a person asks for them: nodeplane image, kubectl, and what the pod then says."""

import json
import os
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.runtime.spec.isolation import namespaces_allowed
from protocols.kube.meta import Object
from protocols.process.mountinfo import mounts_below
from tests.support import images
from tests.support.images import oci_archive
from tests.support.plane import Plane, until

REASONS = "jsonpath={.items[*].reason}"
pytestmark = [
    pytest.mark.skipif(not namespaces_allowed(), reason="an image's root needs root with CAP_SYS_ADMIN"),
    pytest.mark.skipif(shutil.which("busybox") is None, reason="busybox is not installed (busybox-static)"),
]


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """A plane that runs imported images only."""
    with Plane("--images", "imported") as running:
        yield running


def pod(name: str, container: Object, **more: Any) -> Object:
    containers = [{"name": "a", "image": "team/box:1", **container}]
    spec = {"terminationGracePeriodSeconds": 1, "restartPolicy": "Never", "containers": containers, **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def waiting(plane: Plane, name: str) -> Any:
    statuses = plane.get("pod", name).get("status", {}).get("containerStatuses") or [{}]
    return statuses[0].get("state", {}).get("waiting", {})


def test_a_pod_waits_for_its_image_and_runs_once_it_is_there(plane: Plane) -> None:
    plane.apply(pod("early", {"imagePullPolicy": "IfNotPresent"}))
    plane.apply(pod("never", {"imagePullPolicy": "Never"}))
    found = until("a back-off", lambda: [w for w in [waiting(plane, "early")] if w.get("reason") == "ImagePullBackOff"])
    assert "nodeplane image import" in found[0]["message"]
    until("a refusal", lambda: waiting(plane, "never").get("reason") == "ErrImageNeverPull")
    archive = oci_archive(plane.root / "box.tar")
    said = plane.nodeplane("image", "import", str(archive), "--name", "team/box:1")
    assert said.startswith("team/box:1: ")
    for name in ("early", "never"):
        plane.kubectl("annotate", "pod", name, "try=now")
        plane.pod_phase(name, "Succeeded", 40)
        assert plane.kubectl("logs", name) == "hello from /home/box as box\n"
    shown = plane.get("pod", "early")["status"]["containerStatuses"][0]
    assert shown["imageID"].removeprefix("sha256:").startswith(said.split()[-1])
    assert "team/box:1" in plane.nodeplane("image", "ls")
    with pytest.raises(AssertionError, match="used by a container"):
        plane.nodeplane("image", "rm", "team/box:1")
    with pytest.raises(AssertionError, match="neither index"):
        plane.nodeplane("image", "import", str(images._written(plane.root / "bad.tar", {})))
    wanted, reasons = {"BackOff", "Failed", "Pulling", "Pulled", "ErrImageNeverPull"}, ("get", "events", "-o", REASONS)
    until("its events", lambda: wanted <= set(plane.kubectl(*reasons).split()), every=0.2)


def test_a_hostile_image_changes_nothing_of_the_host(plane: Plane, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "victim").write_text("whole")
    linked = images.entry("d", type=tarfile.SYMTYPE, linkname=str(closed))
    first = [images.entry("d/", mode=0o777, type=tarfile.DIRTYPE), linked]
    then = [images.entry("d/.wh.victim"), images.entry("d/", mode=0o777, type=tarfile.DIRTYPE)]
    archive = images._written(
        tmp_path / "evil.tar",
        {
            "first": images.layer(first),
            "then": images.layer(then),
            "c": b"{}",
            "manifest.json": b'[{"Config": "c", "RepoTags": ["evil:1"], "Layers": ["first", "then"]}]',
        },
    )
    plane.nodeplane("image", "import", str(archive))
    assert (closed.stat().st_mode & 0o777, (closed / "victim").read_text()) == (0o700, "whole")
    above = images._written(
        tmp_path / "above.tar",
        {
            "first": images.layer([images.entry(".wh...")]),
            "c": b'{"config": {}}',
            "manifest.json": b'[{"Config": "c", "RepoTags": ["above:1"], "Layers": ["first"]}]',
        },
    )
    with pytest.raises(AssertionError, match="removes no entry of the image"):
        plane.nodeplane("image", "import", str(above))
    assert "evil:1" in plane.nodeplane("image", "ls")
    plane.nodeplane("image", "rm", "evil:1")


def test_what_a_pod_asks_for_it_has(plane: Plane) -> None:
    plane.nodeplane("image", "import", str(oci_archive(plane.root / "again.tar")), "--name", "team/box:1")
    script = "hostname; echo $$$$; id -G; cat /etc/greeting /proc/self/oom_score_adj; exec sleep 60"
    volumes = [{"name": "c", "configMap": {"name": "greeting"}}, {"name": "m", "emptyDir": {"medium": "Memory"}}]
    mounts = [{"name": "c", "mountPath": "/etc/greeting", "subPath": "text"}, {"name": "m", "mountPath": "/fast"}]
    container = {
        "command": ["sh", "-c", script],
        "volumeMounts": mounts,
        "resources": {"limits": {"memory": "64Mi", "cpu": "500m"}, "requests": {"memory": "32Mi", "cpu": "100m"}},
        "securityContext": {"runAsUser": 0, "readOnlyRootFilesystem": True},
    }
    plane.kubectl("create", "configmap", "greeting", "--from-literal=text=good day\n")
    names = {
        "hostname": "asker",
        "hostAliases": [{"ip": "10.1.2.3", "hostnames": ["far", "away"]}],
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": ["10.9.9.9"], "options": [{"name": "ndots", "value": "3"}]},
    }
    made = pod(
        "asks",
        container,
        **names,
        restartPolicy="Always",
        volumes=volumes,
        securityContext={"supplementalGroups": [77]},
    )
    plane.apply(made)
    plane.pod_ready("asks")
    said = until("its five lines", lambda: [told for told in [plane.kubectl("logs", "asks")] if told.count("\n") == 5])
    name, number, groups, text, score = said[0].splitlines()
    assert (name, number, text) == ("asker", "1", "good day")
    assert "77" in groups.split()
    assert 2 <= int(score) <= 999
    assert plane.kubectl("exec", "asks", "--", "hostname") == "asker\n"
    assert "10.1.2.3\tfar\taway\n" in plane.kubectl("exec", "asks", "--", "cat", "/etc/hosts")
    resolv = plane.kubectl("exec", "asks", "--", "cat", "/etc/resolv.conf")
    assert resolv == "nameserver 10.9.9.9\noptions ndots:3\n"
    assert plane.get("pod", "asks")["status"]["qosClass"] == "Burstable"
    assert "tmpfs" in plane.kubectl("exec", "asks", "--", "cat", "/proc/mounts").partition(" /fast ")[2].split()[0]
    assert "Read-only" in plane.kubectl("exec", "asks", "--", "sh", "-c", "touch /x 2>&1 || true")
    plane.kubectl("exec", "asks", "--", "sh", "-c", "echo yes > /fast/x")
    plane.down()
    assert str(plane.root) not in Path("/proc/mounts").read_text(), "a root that is down can be removed"
    plane.up()
    until("it runs again", lambda: plane.kubectl("exec", "asks", "--", "ls", "/etc/greeting", check=False), every=0.2)
    assert plane.kubectl("exec", "asks", "--", "ls", "/fast") == "", "memory is empty after that"
    plane.delete("pod", "asks")
    plane.apply(pod("rooted", {"securityContext": {"runAsNonRoot": True, "runAsUser": 0}}))
    until("a refusal", lambda: waiting(plane, "rooted").get("reason") == "CreateContainerConfigError")
    plane.kubectl("delete", "pod", "--all", "--wait=true")
    until("the image free again", lambda: plane.nodeplane("image", "rm", "team/box:1", check=False), every=0.2)
    assert "no image was imported" in plane.nodeplane("image", "ls")
    until("nothing of a pod mounted", lambda: mounts_below(plane.root) == [str(plane.root / "memory")])


def test_pods_have_namespaces_rights_and_files_as_kubernetes_gives_them(plane: Plane) -> None:
    plane.nodeplane("image", "import", str(oci_archive(plane.root / "kit.tar")), "--name", "team/kit:1")
    kit = {"image": "team/kit:1", "command": ["sleep", "600"], "securityContext": {"runAsUser": 0}}
    files = [{"name": "f", "image": {"reference": "team/kit:1"}}, {"name": "h", "hostPath": {"path": "/etc/hosts"}}]
    whole, part = {"name": "f", "mountPath": "/files"}, {"name": "f", "mountPath": "/part", "subPath": "old"}
    deep = {"name": "h", "mountPath": "/deep", "readOnly": True, "recursiveReadOnly": "IfPossible"}
    beside = {**kit, "name": "b", "volumeMounts": [{"name": "h", "mountPath": "/etc/hosts"}]}
    shared = pod("shared", {**kit, "volumeMounts": [whole, part, deep]}, shareProcessNamespace=True, volumes=files)
    shared["spec"]["containers"].append(beside)
    shared["spec"]["securityContext"] = {"sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}]}
    plane.apply(shared)
    plane.apply(pod("lacks", {**kit, "volumeMounts": [whole]}, volumes=[{"name": "f", "image": {"reference": "no:1"}}]))
    plane.apply(pod("node", kit, hostPID=True, hostNetwork=True))
    plane.pod_ready("shared")

    def run(name: str, *command: str) -> str:
        return plane.kubectl("exec", *name.split(), "--", *command)

    assert run("shared -c a", "cat", "/proc/1/comm") == "pause\n"
    assert run("shared -c b", "sh", "-c", "cat /proc/[0-9]*/comm").split().count("sleep") == 2
    assert "CapEff:\t00000000a80425fb" in run("shared -c a", "cat", "/proc/self/status")
    assert run("shared -c a", "cat", "/proc/sys/kernel/shm_rmid_forced") == "1\n"
    assert run("shared -c a", "cat", "/files/etc/made-in") == "two layers\n"
    assert run("shared -c a", "ls", "/part") == "stays\n"
    assert "Read-only" in run("shared -c a", "sh", "-c", "touch /files/x 2>&1 || true")
    assert run("shared -c a", "cat", "/etc/hosts").startswith("# Kubernetes-managed hosts file.\n")
    assert "\tshared\n" in run("shared -c a", "cat", "/etc/hosts")
    assert run("shared -c b", "cat", "/etc/hosts") == Path("/etc/hosts").read_text(), "it mounts its own"
    reasons = ("ErrImagePull", "ImagePullBackOff")
    until("its volume's image is missing", lambda: waiting(plane, "lacks").get("reason") in reasons)
    plane.pod_ready("node")
    assert run("node", "sh", "-c", f"test -d /proc/{os.getpid()} && echo seen") == "seen\n"
    assert run("node", "cat", "/etc/hosts").startswith("# Kubernetes-managed hosts file (host network).\n")
    with pytest.raises(AssertionError, match="used by a container"):
        plane.nodeplane("image", "rm", "team/kit:1")
    plane.kubectl("delete", "pod", "--all", "--wait=true")
    until("nothing of a pod mounted", lambda: mounts_below(plane.root) == [str(plane.root / "memory")])


MEMORY = "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null || true"


def test_limits_of_a_pod_are_seen_inside_and_change_in_place(plane: Plane) -> None:
    if "memory" not in plane.nodeplane("status"):
        pytest.skip("no writable cgroup hierarchy with the memory controller")
    limits = {"limits": {"memory": "32Mi", "cpu": "200m"}}
    plane.nodeplane("image", "import", str(oci_archive(plane.root / "sized.tar")), "--name", "team/sized:1")
    kit = {"image": "team/sized:1", "command": ["sleep", "600"], "securityContext": {"runAsUser": 0}}
    plane.apply(pod("resized", {**kit, "resources": limits}))
    plane.pod_ready("resized")
    assert plane.kubectl("exec", "resized", "--", "sh", "-c", MEMORY) == f"{32 << 20}\n"
    amounts = {"memory": "64Mi", "cpu": "200m"}
    more = {"spec": {"containers": [{"name": "a", "resources": {"limits": amounts, "requests": amounts}}]}}
    plane.kubectl("patch", "pod", "resized", "--subresource", "resize", "-p", json.dumps(more))
    until(
        "the new limit inside",
        lambda: plane.kubectl("exec", "resized", "--", "sh", "-c", MEMORY) == f"{64 << 20}\n",
        every=0.2,
    )
    plane.kubectl("delete", "pod", "--all", "--wait=true")
