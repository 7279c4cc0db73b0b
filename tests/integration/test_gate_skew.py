"""KEP-5027's version skew: the API server knows ResourceSlicePatches, the scheduler does not yet."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.plane import BIN, REPO, run, stop, until
from tests.support.plane_client import forget, read

OFF = ("--feature-gates", "DRAAdminControlledDeviceAttributes=false")
DRIVER = "gpu.example.com"


class Skewed:
    """The group `control`, whose scheduler has the gate off, and beside it `watcher`, whose API servers have it on."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="np", dir="/tmp"))
        self.environment = {**os.environ, "HOME": str(self.root), "KUBECONFIG": str(self.root / "kubeconfig")}
        self.groups: list[subprocess.Popen[bytes]] = []

    def begin(self, group: str, *flags: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "supervisor", group, "--root", str(self.root), "--port", "0"]
        with (self.root / f"{group}.log").open("ab") as log:
            process = subprocess.Popen([*command, "--metrics-port", "0", *flags], cwd=REPO, stdout=log, stderr=log)
        self.groups.append(process)
        return process

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        return run([str(BIN / "kubectl"), *arguments], self.environment, 90, True, stdin)

    def apply(self, *objects: dict[str, Any]) -> str:
        items = {"apiVersion": "v1", "kind": "List", "items": objects}
        return self.kubectl("apply", "-f", "-", stdin=json.dumps(items))

    def close(self) -> None:
        for process in reversed(self.groups):
            stop(process)
        forget(self.root)
        shutil.rmtree(self.root, ignore_errors=True)


@pytest.fixture
def skewed() -> Iterator[Skewed]:
    plane = Skewed()
    try:
        yield plane
    finally:
        plane.close()


def dra(kind: str, name: str, spec: dict[str, Any], version: str = "v1") -> dict[str, Any]:
    return {"apiVersion": f"resource.k8s.io/{version}", "kind": kind, "metadata": {"name": name}, "spec": spec}


def claim(name: str, expression: str) -> dict[str, Any]:
    exactly = {"deviceClassName": DRIVER, "selectors": [{"cel": {"expression": expression}}]}
    return dra("ResourceClaim", name, {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}})


def pod(name: str) -> dict[str, Any]:
    container = {"name": "c", "image": "busybox", "resources": {"claims": [{"name": "gpu"}]}}
    spec = {"containers": [container], "resourceClaims": [{"name": "gpu", "resourceClaimName": name}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def node() -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "by-hand"}}


def node_status() -> str:
    ready = {"type": "Ready", "status": "True"}
    status = {"capacity": {"pods": "10"}, "allocatable": {"pods": "10"}, "conditions": [ready]}
    return json.dumps({"status": status})


def test_patches_without_effect_cause_neither_errors_nor_warnings(skewed: Skewed) -> None:
    skewed.begin("control", *OFF)
    until("the control group", lambda: (skewed.root / "run" / "settings.json").exists())
    refused = skewed.begin("watcher")
    assert refused.wait(60) == 2
    skewed.begin("watcher", "--feature-gate-skew", "true")
    until("the API answers", lambda: read(skewed.root, "/readyz") == b"ok")
    devices = [{"name": f"dev-{number}", "attributes": {"slot": {"int": number}}} for number in range(2)]
    pool = {"name": "pool", "generation": 1, "resourceSliceCount": 1}
    patched = {"attributes": {f"{DRIVER}/numa": {"int": 1}}, "filter": {"driver": DRIVER}}
    told = skewed.apply(
        node(),
        dra("DeviceClass", DRIVER, {}),
        dra("ResourceSlice", "all", {"driver": DRIVER, "pool": pool, "allNodes": True, "devices": devices}),
        dra("ResourceSlicePatch", "numa", {"devices": patched}, "v1alpha3"),
        claim("patched", f'device.attributes["{DRIVER}"].?numa == optional.of(1)'),
        claim("plain", f'device.attributes["{DRIVER}"].slot == 1'),
        pod("patched"),
        pod("plain"),
    )
    assert "resourceslicepatch.resource.k8s.io/numa created" in told
    assert "Warning" not in told
    skewed.kubectl("patch", "node", "by-hand", "--subresource=status", "--type=merge", "-p", node_status())
    until("the pod without need of it", lambda: "by-hand" in skewed.kubectl("get", "pod", "plain", "-o", "wide"))
    events = ("events", "--for", "pod/patched", "--types=Warning")
    until("the other one waits", lambda: "cannot allocate all claims" in skewed.kubectl(*events))
    stored = json.loads(skewed.kubectl("get", "resourceslicepatch", "numa", "-o", "json"))
    assert stored["spec"]["devices"]["attributes"] == patched["attributes"]
