"""A root that release 0.1.0 wrote starts under this program; a root of a newer format starts under none."""

import json
import lzma
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.plane import Plane, until
from tests.support.written_root import NODE

ROOTS = Path(__file__).parent / "roots"
"""Archives of roots by the release that wrote them, made by tests/support/written_root.py."""


@pytest.fixture(scope="module", params=["0.1.0"])
def plane(request: pytest.FixtureRequest) -> Iterator[Plane]:
    made = Plane("--node-name", NODE)
    archive = ROOTS / f"{request.param}.tar.xz"
    packed = lzma.decompress(archive.read_bytes())  # tar needs a program for it, which not every machine has
    subprocess.run(["tar", "--no-same-owner", "-xpf", "-", "-C", str(made.root)], input=packed, check=True)
    with made as running:
        yield running


@pytest.fixture(scope="module")
def written(plane: Plane) -> dict[str, dict[str, str]]:
    return dict(json.loads((plane.root / "written.json").read_text()))


def test_objects_are_the_same_and_revisions_go_on(plane: Plane, written: dict[str, dict[str, str]]) -> None:
    for name, known in written.items():
        kind, _, called = name.partition("/")
        found = json.loads(plane.kubectl("get", kind.lower(), called, "-o", "json"))
        assert found["metadata"]["uid"] == known["uid"], name
    assert plane.get("configmap", "kept")["data"] == {"a": "b"}
    assert plane.kubectl("get", "secret", "hidden", "-o", "jsonpath={.data.word}") == "eHl6"
    assert plane.kubectl("get", "widget", "one", "-o", "jsonpath={.spec.size}") == "3"
    made = plane.kubectl("create", "configmap", "new", "-o", "jsonpath={.metadata.resourceVersion}")
    assert int(made) > max(int(known["resourceVersion"]) for known in written.values())


def test_pods_run_again_with_the_devices_they_had(plane: Plane) -> None:
    before = allocated(plane)
    assert {len(devices) for devices in before.values()} == {2}
    plane.plugin(devices=4)
    pods = [pod["metadata"]["name"] for pod in plane.list("pod")]
    running = [name for name in pods if name == "gpu-pod" or name.startswith("web-")]
    assert len(running) == 3
    for name in running:
        plane.pod_ready(name)
    assert allocated(plane) == before
    log = until("what it has", lambda: plane.kubectl("logs", "gpu-pod"))
    assert sorted(log.splitlines()[-1].removeprefix("my devices: ").split(",")) == sorted(*before.values())


def test_claim_keeps_its_device(plane: Plane) -> None:
    [claim] = json.loads(plane.kubectl("get", "resourceclaims", "-o", "json"))["items"]
    [result] = claim["status"]["allocation"]["devices"]["results"]
    prepared = json.loads(json.loads((plane.root / "kubelet" / "dra_manager_state").read_text())["Data"])
    assert result["driver"] == "gpu.example.com"
    assert result["device"] in json.dumps(prepared)


def test_root_has_a_format_from_now_on(plane: Plane) -> None:
    assert json.loads((plane.root / "format.json").read_text())["format"] >= 1


def allocated(plane: Plane) -> dict[str, list[str]]:
    """Return the devices of each pod by uid, from kubelet's checkpoint."""
    checkpoint = plane.root / "kubelet" / "device-plugins" / "kubelet_internal_checkpoint"
    entries: list[dict[str, Any]] = json.loads(checkpoint.read_text())["Data"]["PodDeviceEntries"]
    return {entry["PodUID"]: [id for ids in entry["DeviceIDs"].values() for id in ids] for entry in entries}
