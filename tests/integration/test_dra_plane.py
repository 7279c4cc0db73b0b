"""Claims from kubectl to the container's environment and back, on one whole plane with the product's own driver."""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.mistreat import hit
from tests.support.plane import REPO, Plane, stop, until
from tests.support.pod_resources_client import Agent
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
        flags = ["--driver", DRIVER, "--devices", "8", "--numa", "2", "--health-file", str(self.health)]
        self.driver = self.plane.start("dra-driver", *flags, log=self.log.name)

    def slices(self) -> list[dict[str, Any]]:
        return self.plane.list("resourceslice")

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
    (claim,) = claims(lab)
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    own = f"GPU_EXAMPLE_COM_{result['device'].upper().replace('-', '_')}="
    for word in ('GPU_EXAMPLE_COM_CONFIG={"mode": "shared"}', own):
        until(word, lambda: word in plane.kubectl("logs", "gpu-claim", check=False))  # noqa: B023 # used at once
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
    until("its event", lambda: plane.events(reason="DeviceUnhealthy"))  # none of a state that ends at once
    lab.health.unlink()
    until("healthy again", lambda: lab.health_of("gpu-claim") == well)
    (kept,) = lab.kept()
    assert kept["ClaimUID"] == claim["metadata"]["uid"]
    plane.delete("pod", "gpu-claim")
    until("given back", lambda: lab.kept() is None)
    assert list((plane.root / "cdi").iterdir()) == []
    until("claim gone", lambda: not claims(lab))
    calls = [json.loads(line) for line in plane.nodeplane("calls", DRIVER, "-o", "json").splitlines()]
    assert [call["method"] for call in calls if call["subject"]] == ["NodePrepareResources", "NodeUnprepareResources"]
    assert {"GetInfo", "NotifyRegistrationStatus", "NodeWatchResources"} < {call["method"] for call in calls}
    assert "outcome   1 of 1 claim prepared" in plane.nodeplane("calls")
    spans = json.loads(plane.nodeplane("trace", "pod/gpu-claim", "-o", "json"))["spans"]
    depths = {f"{span['actor']} {span['name']}": span["depth"] for span in reversed(spans)}
    down = ("podworker sync", "podworker claims", "devices prepare claims", "devices NodePrepareResources")
    assert [depths[name] for name in down] == [0, 1, 2, 3]
    assert depths["devices NodeUnprepareResources"] == 2
    assert {"controllers create claim", "scheduler allocate claims", "health event"} < depths.keys()


def claims(lab: Lab) -> list[Any]:
    return lab.plane.list("resourceclaim")


def test_a_claim_deleted_under_its_pod_and_a_file_spoiled_under_its_owner(lab: Lab) -> None:
    """The pod goes on, its container can be started again, and the driver is told in the end."""
    plane = lab.plane
    again = pod("again")
    again["spec"]["containers"][0]["command"][2] = "env | grep ^GPU_EXAMPLE_COM_GPU; sleep 1"
    plane.apply(again)
    until("running", lambda: lab.health_of("again"))
    (claim,) = claims(lab)
    name = claim["metadata"]["name"]
    plane.delete("resourceclaim", name, wait=False)
    plane.kubectl("patch", "resourceclaim", name, "--type=merge", "-p", '{"metadata":{"finalizers":null}}', check=False)
    stopped = hit(plane, "devices", number=signal.SIGSTOP)  # it might write the file again
    (plane.root / "kubelet" / "dra_manager_state").write_text("spoiled")
    os.kill(stopped["devices"], signal.SIGKILL)
    until("told", lambda: "ClaimCheckpoint" in str(plane.events()))
    restarts = until("restarted", lambda: main_status(plane.get("pod", "again")).get("restartCount"))
    assert restarts
    until("environment", lambda: "GPU_EXAMPLE_COM_GPU" in plane.kubectl("logs", "again", check=False))
    plane.delete("pod", "again")
    until("given back", lambda: lab.kept() is None)
    assert list((plane.root / "cdi").iterdir()) == []


SHARED = "shared.example.com"
SHARED_EXAMPLE = REPO / "examples" / "shared-device.yaml"


@pytest.fixture
def shared_driver(lab: Lab) -> Iterator[Path]:
    """A driver with one shared device; yields its health file."""
    health = lab.plane.root / "shared-health.txt"
    flags = ["--driver", SHARED, "--shared", "--devices", "1", "--health-file", str(health)]
    driver = lab.plane.start("dra-driver", *flags, log=lab.log.name)
    yield health
    stop(driver)


def share_of(name: str) -> dict[str, Any]:
    """A pod like the example's."""
    (found,) = [each for each in yaml.safe_load_all(SHARED_EXAMPLE.read_text()) if each["kind"] == "Pod"]
    return {**found, "metadata": {"name": name}}


async def shares_by_pod(lab: Lab) -> dict[str, str]:
    """Ids of shares as the pod resources API has them."""
    agent = Agent(lab.plane.root / "kubelet" / "pod-resources" / "kubelet.sock")
    try:
        return {
            pod.name: item.share_id
            for pod in await agent.list_all()
            for claim in pod.containers[0].dynamic_resources
            for item in claim.claim_resources
            if item.driver_name == SHARED
        }
    finally:
        await agent.close()


def test_pods_share_a_device_until_its_capacity_is_consumed(lab: Lab, shared_driver: Path) -> None:
    plane = lab.plane
    plane.apply(SHARED_EXAMPLE)
    plane.apply(share_of("other"))
    for name in ("half", "other"):
        plane.pod_ready(name)
        until("environment", partial(plane.kubectl, "logs", name, check=False), good=lambda log: "=6Gi" in log)
    results = {
        claim["metadata"]["ownerReferences"][0]["name"]: claim["status"]["allocation"]["devices"]["results"]
        for claim in claims(lab)
    }
    assert {name: [each["consumedCapacity"] for each in found] for name, found in results.items()} == {
        "half": [{"memory": "6Gi"}],
        "other": [{"memory": "6Gi"}],
    }
    ids = {name: found[0]["shareID"] for name, found in results.items()}
    assert asyncio.run(shares_by_pod(lab)) == ids
    assert "Consumed Capacity:" in plane.kubectl("describe", "resourceclaims")
    (shown,) = json.loads(plane.nodeplane("devices", "--shares", "-o", "json"))
    assert (shown["capacity"], len(shown["shares"])) == (
        [{"name": f"{SHARED}/memory", "used": "12Gi", "total": "16Gi"}],
        2,
    )
    shared_driver.write_text("shared-0 Unhealthy ECC error\n")
    for name in ids:
        until(
            "unhealthy", partial(lab.health_of, name), good=lambda found: [e["health"] for e in found] == ["Unhealthy"]
        )
    plane.apply(share_of("late"))
    until("late waits", lambda: "cannot allocate all claims" in str(plane.get("pod", "late")))
    devices = {"filter": {"driver": SHARED}, "capacity": {f"{SHARED}/memory": {"value": "8Gi"}}}
    kind = {"apiVersion": "resource.k8s.io/v1alpha3", "kind": "ResourceSlicePatch"}
    plane.apply({**kind, "metadata": {"name": "less"}, "spec": {"devices": devices}})
    until("event", lambda: "DeviceCapacityExceeded" in str(plane.events()))
    plane.delete("resourceslicepatch", "less")
    plane.delete("pod", "half")
    plane.pod_ready("late")
    assert ids["other"] in asyncio.run(shares_by_pod(lab)).values()
    plane.delete("pod", "other", "late")
    until("claims gone", lambda: not claims(lab), every=0.3)


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
    plane.delete("pod", "before", wait=False)
    until("why it waits", lambda: "NodeUnprepareResources: " in str(plane.events()))
    lab.start()
    until("slices back", lab.slices)
    until("pod gone", lambda: not plane.get("pod", "before"))
    until("given back", lambda: lab.kept() is None)
    stop(lab.driver)
    assert not list(Path(plane.root / "kubelet" / "plugins_registry").glob(f"{DRIVER}-{lab.driver.pid}*"))
