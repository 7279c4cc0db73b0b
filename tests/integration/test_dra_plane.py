"""Claims from kubectl to the container's environment and back, on one whole plane with the product's own driver."""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.mistreat import hit
from tests.support.plane import BIN, REPO, Plane, stop, until
from tests.support.witnesses import main_status

EXAMPLE = REPO / "examples" / "gpu-claim.yaml"
DRIVER = "gpu.example.com"


class Lab:
    """A plane, and a driver on it."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.health = plane.root / "health.txt"
        self.log = plane.root / "driver.log"
        self.start()

    def start(self) -> None:
        command = [str(BIN / "nodeplane"), "--root", str(self.plane.root), "dra-driver", "--driver", DRIVER]
        flags = ["--devices", "8", "--numa", "2", "--health-file", str(self.health)]
        with self.log.open("ab") as log:
            self.driver = subprocess.Popen([*command, *flags], stdout=log, stderr=log)
        self.plane.plugins.append(self.driver)

    def lines(self, start: str) -> list[str]:
        return [line for line in self.log.read_text().splitlines() if line.startswith(start)]

    def slices(self) -> list[dict[str, Any]]:
        text = self.plane.kubectl("get", "resourceslices", "-o", "json", check=False)
        return list(json.loads(text)["items"]) if text else []

    def health_of(self, pod: str) -> list[dict[str, str]]:
        statuses = self.plane.get("pod", pod).get("status", {}).get("containerStatuses") or [{}]
        shown = statuses[0].get("allocatedResourcesStatus") or [{}]
        return list(shown[0].get("resources") or [])

    def kept(self) -> Any:
        """Claims the node holds, by its checkpoint; None: there is one, and it holds none."""
        path = self.plane.root / "kubelet" / "dra_manager_state"
        if not path.exists():
            return "nothing was written yet"
        return json.loads(json.loads(path.read_text())["Data"])["ClaimInfoStateList"]

    def kill(self, actor: str) -> None:
        with contextlib.suppress(ProcessLookupError):
            hit(self.plane, actor)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """A plane with a DRA driver and the example's claims."""
    with Plane() as plane:
        lab = Lab(plane)
        until("slices", lab.slices)
        plane.kubectl("apply", "-f", "-", stdin=without_pod(EXAMPLE.read_text()))
        yield lab


def without_pod(manifests: str) -> str:
    """The device class and the claim template that pods of each test use."""
    return "---\n".join(document for document in manifests.split("---\n") if "\nkind: Pod\n" not in f"\n{document}")


def pod(name: str) -> dict[str, Any]:
    """One that claims a GPU by the example's template."""
    container = {
        "name": "main",
        "image": "busybox",
        "command": ["sh", "-c", "env | grep ^GPU_EXAMPLE_COM_GPU; while true; do sleep 1 & wait $!; done"],
        "resources": {"claims": [{"name": "gpu"}]},
    }
    spec = {
        "terminationGracePeriodSeconds": 0,
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
        "containers": [container],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def test_the_example_runs_with_its_device_shows_its_health_and_leaves_nothing(lab: Lab) -> None:
    plane = lab.plane
    plane.apply(EXAMPLE)
    plane.pod_ready("gpu-claim")
    (claim,) = json.loads(plane.kubectl("get", "resourceclaims", "-o", "json"))["items"]
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    own = f"GPU_EXAMPLE_COM_{result['device'].upper().replace('-', '_')}="
    for word in ('GPU_EXAMPLE_COM_CONFIG={"mode": "shared"}', own):
        until(word, lambda word=word: word in plane.kubectl("logs", "gpu-claim", check=False))
    device = f"{DRIVER}/{result['pool']}/{result['device']}"
    well = [{"health": "Healthy", "resourceID": device}]
    until("healthy", lambda: lab.health_of("gpu-claim") == well)
    lab.health.write_text(f"{result['device']} Unhealthy ECC error\n")
    ill = [{"health": "Unhealthy", "message": "ECC error", "resourceID": device}]
    until("unhealthy", lambda: lab.health_of("gpu-claim") == ill)
    view = plane.nodeplane("devices", "--drivers")
    assert [line.split()[:5] for line in view.splitlines()[1:2]] == [
        [DRIVER, "connected", "v1.DRAPlugin", "v1.DRAResourceHealth", "1"]
    ]
    assert f"{device}  Unhealthy  default/{claim['metadata']['name']}  default/gpu-claim  ECC error" in view
    lab.health.unlink()
    until("healthy again", lambda: lab.health_of("gpu-claim") == well)
    (kept,) = lab.kept()
    assert kept["ClaimUID"] == claim["metadata"]["uid"]
    plane.kubectl("delete", "pod", "gpu-claim")
    until("given back", lambda: lab.kept() is None)
    assert list((plane.root / "cdi").iterdir()) == []
    until("claim gone", lambda: not claims(lab))


def claims(lab: Lab) -> list[Any]:
    return list(json.loads(lab.plane.kubectl("get", "resourceclaims", "-o", "json"))["items"])


def test_nothing_leaks_whoever_is_killed_while_pods_come_and_go(lab: Lab) -> None:
    plane = lab.plane
    plane.apply(EXAMPLE)
    names = [f"p{number}" for number in range(3)]
    for name, victim in zip(names, ("devices", "podworker", ""), strict=True):
        plane.apply(pod(name))
        if victim:
            lab.kill(victim)
    for name in (*names, "gpu-claim"):
        plane.pod_ready(name, timeout=90)
        assert "GPU_EXAMPLE_COM_GPU" in until("environment", lambda name=name: plane.kubectl("logs", name, check=False))
    assert len(lab.kept()) == 4
    plane.kubectl("delete", "pod", "--wait=false", *names, "gpu-claim")
    for victim in ("devices", "podworker"):
        lab.kill(victim)
        time.sleep(0.2)
    until("pods gone", lambda: plane.kubectl("get", "pods", "-o", "name") == "", every=0.3)
    until("all claims given back", lambda: lab.kept() is None)
    assert list((plane.root / "cdi").iterdir()) == []
    until("claims gone", lambda: not claims(lab), every=0.3)


def test_a_claim_deleted_under_its_pod_and_a_file_spoiled_under_its_owner(lab: Lab) -> None:
    """The pod goes on, its container can be started again, and the driver is told in the end."""
    plane = lab.plane
    again = pod("again")
    again["spec"]["containers"][0]["command"][2] = "env | grep ^GPU_EXAMPLE_COM_GPU; sleep 1"
    plane.apply(again)
    until("running", lambda: lab.health_of("again"))
    (claim,) = claims(lab)
    name = claim["metadata"]["name"]
    plane.kubectl("delete", "resourceclaim", name, "--wait=false")
    plane.kubectl("patch", "resourceclaim", name, "--type=merge", "-p", '{"metadata":{"finalizers":null}}', check=False)
    stopped = hit(plane, "devices", number=signal.SIGSTOP)  # it might write the file again
    (plane.root / "kubelet" / "dra_manager_state").write_text("spoiled")
    os.kill(stopped["devices"], signal.SIGKILL)
    said = until("told", lambda: plane.kubectl("get", "events", "-o", "json", check=False).count("ClaimCheckpoint"))
    assert said
    restarts = until("restarted", lambda: main_status(plane.get("pod", "again")).get("restartCount"))
    assert restarts
    until("environment", lambda: "GPU_EXAMPLE_COM_GPU" in plane.kubectl("logs", "again", check=False))
    plane.kubectl("delete", "pod", "again")
    until("given back", lambda: lab.kept() is None)
    assert list((plane.root / "cdi").iterdir()) == []


def test_a_driver_that_dies_is_unknown_its_slices_go_and_it_comes_back(lab: Lab) -> None:
    """S48 at the start of the node's agent, S56 for the driver's death, and a pod that waits for its driver."""
    plane = lab.plane
    plane.apply(pod("before"))
    plane.pod_ready("before")
    until("healthy", lambda: [item["health"] for item in lab.health_of("before")] == ["Healthy"])
    lab.driver.kill()
    lab.driver.wait()
    until("unknown", lambda: [item["health"] for item in lab.health_of("before")] == ["Unknown"])
    lab.kill("podworker")
    until("slices gone", lambda: not lab.slices())
    plane.kubectl("delete", "pod", "before", "--wait=false")
    until(
        "why it waits", lambda: "NodeUnprepareResources: " in plane.kubectl("get", "events", "-o", "json", check=False)
    )
    lab.start()
    until("slices back", lab.slices)
    until("pod gone", lambda: not plane.get("pod", "before"))
    until("given back", lambda: lab.kept() is None)
    stop(lab.driver)
    assert not list(Path(plane.root / "kubelet" / "plugins_registry").glob(f"{DRIVER}-{lab.driver.pid}*"))
