"""Two control planes with roots of their own on one etcd (TLS): clients of one are clients of the other, one works."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.etcd_fixture import etcd_binary
from tests.support.etcd_cluster import Cluster, cluster
from tests.support.plane import BIN, REPO, Plane, run, stop, until
from tests.support.plane_client import PATHS, forget, read, read_object
from tests.support.store_lab import etcd_process

GROUPS = ("control", "watcher")
LEASES = ("kube-controller-manager", "kube-scheduler")


def holder(root: Path, lease: str) -> str:
    found = read_object(root, f"{PATHS['lease'].format(namespace='kube-system')}/{lease}")
    return str(found.get("spec", {}).get("holderIdentity", ""))


class Control:
    """The groups `control` and `watcher` of one root, as two lines of the Procfile."""

    def __init__(self, etcd: Cluster, *flags: str) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="np", dir="/tmp"))
        files = etcd.files
        self._flags = ["--root", str(self.root), "--port", "0", "--metrics-port", "0", "--store", etcd.store]
        self._flags += ["--etcd-cafile", files.ca, "--etcd-certfile", files.cert, "--etcd-keyfile", files.key]
        self._flags += flags
        self.environment = {**os.environ, "HOME": str(self.root), "KUBECONFIG": str(self.root / "kubeconfig")}
        self.groups: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        for group in GROUPS:
            command = [sys.executable, "-m", "supervisor", group, *self._flags]
            with (self.root / f"{group}.log").open("wb") as log:
                self.groups[group] = subprocess.Popen(command, cwd=REPO, stdout=log, stderr=log)
        until("the API answers", lambda: read(self.root, "/readyz") == b"ok")

    @property
    def server(self) -> str:
        config = yaml.safe_load((self.root / "kubeconfig").read_text())
        return str(config["clusters"][0]["cluster"]["server"])

    def kubectl(self, *arguments: str, stdin: str = "", check: bool = True) -> str:
        return run([str(BIN / "kubectl"), *arguments], self.environment, 90, check, stdin)

    def get(self, *arguments: str) -> dict[str, Any]:
        return dict(json.loads(self.kubectl("get", *arguments, "-o", "json", check=False) or "{}"))

    def identity(self, instance: str) -> str:
        return (self.root / "run" / f"{instance}.id").read_text().strip()

    def holder(self, lease: str) -> str:
        return holder(self.root, lease)

    def close(self) -> None:
        for group in reversed(GROUPS):
            if group in self.groups:
                stop(self.groups[group])
        forget(self.root)
        shutil.rmtree(self.root, ignore_errors=True)


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Control, Control]]:
    """Two control planes on one etcd."""
    with cluster(etcd_binary(), tls=True) as etcd:
        first = Control(etcd)
        other = Control(etcd, "--bind-address", "127.0.0.2", "--api-names", "second.example")
        try:
            first.start()
            until("the first one leads", lambda: all(first.holder(lease) for lease in LEASES))
            shutil.copytree(first.root / "pki", other.root / "pki")
            other.start()
            yield first, other
        finally:
            other.close()
            first.close()


def pod(name: str) -> str:
    spec = {"containers": [{"name": "c", "image": "busybox"}]}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


def node() -> str:
    status = {"capacity": {"pods": "10"}, "allocatable": {"pods": "10"}}
    status["conditions"] = [{"type": "Ready", "status": "True"}]  # type: ignore[assignment] # a list among the maps
    return json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "by-hand"}, "status": status})


def bound(control: Control, name: str) -> bool:
    return bool(control.get("pod", name).get("spec", {}).get("nodeName"))


def scheduled(control: Control) -> list[str]:
    told = [event for event in control.get("events").get("items", ()) if event["reason"] == "Scheduled"]
    return sorted(event["involvedObject"]["name"] for event in told)


def test_clients_of_one_are_clients_of_the_other(both: tuple[Control, Control]) -> None:
    first, other = both
    assert other.server.startswith("https://127.0.0.2:")
    until("the default account", lambda: first.get("serviceaccount", "default"))
    token = first.kubectl("create", "token", "default").strip()
    assert first.kubectl("--server", other.server, "get", "ns", "default", "-o", "name").strip() == "namespace/default"
    ca = str(first.root / "pki" / "ca.crt")
    alone = ("--kubeconfig", "/dev/null", "--server", other.server, "--certificate-authority", ca, "--token", token)
    who = first.kubectl(*alone, "auth", "whoami", "-o", "json")
    assert "serviceaccount:default:default" in who
    other.kubectl("create", "configmap", "shared")
    assert first.get("configmap", "shared")["metadata"]["name"] == "shared"


def test_one_works_and_the_other_takes_over(both: tuple[Control, Control]) -> None:
    first, other = both
    for lease, instance in zip(LEASES, ("controllers", "scheduler"), strict=True):
        assert first.holder(lease) == first.identity(instance), "who came first leads"
        assert other.identity(instance) != first.identity(instance)
    first.kubectl("create", "-f", "-", stdin=node())
    first.kubectl("patch", "node", "by-hand", "--subresource", "status", "--type", "merge", "-p", node())
    other.kubectl("create", "-f", "-", stdin=pod("one"))
    until("pod one is bound", lambda: bound(first, "one"))
    first.groups["control"].send_signal(signal.SIGTERM)
    first.groups["control"].wait(60)
    for lease, instance in zip(LEASES, ("controllers", "scheduler"), strict=True):
        until(f"{lease} moved", lambda lease=lease, i=instance: other.holder(lease) == other.identity(i))  # type: ignore[misc]
    other.kubectl("create", "-f", "-", stdin=pod("two"))
    until("pod two is bound", lambda: bound(other, "two"))
    until("each was placed once, as the events tell", lambda: scheduled(other) == ["one", "two"])


def test_plane_that_stops_releases_its_leases() -> None:
    with etcd_process(etcd_binary()) as etcd, Plane("--store", f"etcd://{etcd}") as plane:
        until("it leads", lambda: all(holder(plane.root, lease) for lease in LEASES))
        plane.down()
        released = sorted(path.name for path in (plane.root / "run").glob("*.released"))
        assert released == ["controllers.released", "scheduler.released"]
