"""Secrets of pods in memory on a whole plane: through the death of podworker, an upgrade, and the end of the plane."""

import base64
from functools import partial
from pathlib import Path

import pytest

from actors.runtime.spec.isolation import namespaces_allowed
from protocols.kube.meta import Object
from protocols.process import linux
from protocols.process.mountinfo import mounts_below
from tests.support.mistreat import hit, replaced
from tests.support.plane import Plane, until
from tests.support.shared_fixtures import whole_plane

pytestmark = pytest.mark.skipif(not namespaces_allowed(), reason="needs root with CAP_SYS_ADMIN: mounts")
AT = "/mnt/of-a-test"
PODS = 8
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"

plane = whole_plane


def secret(value: str) -> Object:
    data = {"k": base64.b64encode(value.encode()).decode()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "data": data}


def pod(name: str) -> Object:
    volumes = [
        {"name": "s", "secret": {"secretName": "keys"}},
        {"name": "c", "configMap": {"name": "kube-root-ca.crt"}},
    ]
    mounts = [
        {"name": "s", "mountPath": f"{AT}/whole"},
        {"name": "s", "mountPath": f"{AT}/part", "subPath": "k"},
        {"name": "c", "mountPath": f"{AT}/config"},
    ]
    container = {"name": "a", "image": "busybox", "command": ["sleep", "1000"], "volumeMounts": mounts}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container], "volumes": volumes}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def inside(plane: Plane, name: str, command: str) -> str:
    return plane.kubectl("exec", name, "--", "sh", "-c", command)


def on_disk(plane: Plane) -> list[Path]:
    """Files and directories of secrets and tokens below ROOT/pods."""
    return [path for kind in ("secret", "projected") for path in plane.root.glob(f"pods/*/volumes/{kind}")]


def test_secrets_are_in_memory_and_outlive_podworker(plane: Plane) -> None:
    memory = plane.root / "memory"
    plane.apply({"apiVersion": "v1", "kind": "List", "items": [secret("one"), pod("web")]})
    plane.pod_ready("web")
    kinds = inside(plane, "web", f"stat -f -c %T {AT}/whole {AT}/part {TOKEN} {AT}/config").split()
    assert kinds[:3] == ["tmpfs"] * 3
    assert kinds[3] != "tmpfs", "config maps are on the disk"
    assert not on_disk(plane)
    plane.apply(secret("two"))
    replaced(plane, hit(plane, "podworker"))
    until("the new value", lambda: inside(plane, "web", f"cat {AT}/whole/k") == "two")
    assert inside(plane, "web", f"cat {AT}/part") == "one", "a subPath never changes"
    assert plane.get("pod", "web")["status"]["containerStatuses"][0]["restartCount"] == 0
    assert sorted(mounts_below(plane.root))[0] == str(memory)
    assert len(mounts_below(plane.root)) == 2, "one for all pods, one of the subPath"
    plane.down()
    assert not mounts_below(plane.root), "as after the machine's start"
    plane.up()
    whole = partial(plane.kubectl, "exec", "web", "--", "cat", f"{AT}/whole/k", check=False)
    until("its secret in the next run", lambda: whole() == "two")
    plane.delete("pod", "web")
    until("nothing is left of the pod", lambda: not list(memory.iterdir()))


def test_pods_have_their_secrets_whose_podworker_is_killed_while_they_start(plane: Plane) -> None:
    names = [f"web-{number}" for number in range(PODS)]
    plane.apply({"apiVersion": "v1", "kind": "List", "items": [secret("one"), *map(pod, names)]})
    replaced(plane, hit(plane, "podworker"))
    for name in names:
        plane.pod_ready(name)
        assert inside(plane, name, f"cat {AT}/whole/k; test -s {TOKEN}/token") == "one"
    assert len(list((plane.root / "memory").iterdir())) == PODS
    assert not on_disk(plane)
    plane.delete("pod", *names)
    until("nothing is left of the pods", lambda: not list((plane.root / "memory").iterdir()))


def test_pod_with_secrets_on_the_disk_retains_and_updates_them_there(plane: Plane) -> None:
    """As after an upgrade from a release that had them there; here a file is in the way of the mount at first."""
    memory = plane.root / "memory"
    until("the tmpfs", memory.is_mount)
    linux.detach(memory)
    memory.rmdir()
    memory.touch()
    replaced(plane, hit(plane, "podworker"))
    plane.apply({"apiVersion": "v1", "kind": "List", "items": [secret("one"), pod("old")]})
    plane.pod_ready("old")
    (event,) = until("the event", lambda: plane.events(reason="SecretsOnDisk"))
    assert f"no tmpfs can be mounted at {memory}" in event["message"]
    assert len(on_disk(plane)) == 2
    memory.unlink()
    plane.apply(secret("two"))
    replaced(plane, hit(plane, "podworker"))
    until("the new value", lambda: inside(plane, "old", f"cat {AT}/whole/k") == "two")
    plane.apply(pod("new"))
    plane.pod_ready("new")
    assert len(list(memory.iterdir())) == 1
    plane.delete("pod", "old")
    until("nothing is on the disk", lambda: not on_disk(plane))
