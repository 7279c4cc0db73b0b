"""The KEP's end-to-end test on a whole plane with a real driver: patches change attributes, pods that select them run
on patched devices only; also while the scheduler is killed. Then a rule takes a device away from its pod."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.mistreat import pids
from tests.support.plane import Plane, until

DRIVER = "gpu.example.com"
ALPHA = "resource.k8s.io/v1alpha3"
GOLD = 'device.attributes["example.com"].?pool.orValue("") == "gold"'


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """A plane with a DRA driver."""
    with Plane() as plane:
        plane.start("dra-driver", "--driver", DRIVER, "--devices", "6", log="driver.log")
        until("slices", lambda: slices(plane))
        request = {"name": "gpu", "exactly": {"deviceClassName": DRIVER, "selectors": [{"cel": {"expression": GOLD}}]}}
        selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
        template = {"spec": {"devices": {"requests": [request]}}}
        for kind, name, spec in (
            ("DeviceClass", DRIVER, {"selectors": selectors}),
            ("ResourceClaimTemplate", "gold", template),
        ):
            plane.apply({"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec})
        yield plane


def slices(plane: Plane) -> list[dict[str, Any]]:
    return plane.list("resourceslice")


def pod(plane: Plane, name: str, template: str = "gold") -> None:
    container = {
        "name": "main",
        "image": "busybox",
        "command": ["sh", "-c", "env | grep _EXAMPLE_COM; while true; do sleep 1 & wait $!; done"],
        "resources": {"claims": [{"name": "gpu"}]},
    }
    spec = {
        "terminationGracePeriodSeconds": 0,
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": template}],
        "containers": [container],
    }
    plane.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


def patch(plane: Plane, name: str, device: str, pool: str = "gold") -> None:
    devices = {"filter": {"driver": DRIVER, "device": device}, "attributes": {"example.com/pool": {"string": pool}}}
    spec = {"devices": devices}
    plane.apply({"apiVersion": ALPHA, "kind": "ResourceSlicePatch", "metadata": {"name": name}, "spec": spec})


def holders(plane: Plane) -> dict[str, str]:
    """Device -> pod that the claim which has it is reserved for."""
    found: dict[str, str] = {}
    for claim in plane.list("resourceclaim"):
        status = claim.get("status") or {}
        for result in ((status.get("allocation") or {}).get("devices") or {}).get("results") or ():
            assert result["device"] not in found, f"{result['device']} is given twice"
            found[result["device"]] = next((each["name"] for each in status.get("reservedFor") or ()), "")
    return found


def waits(plane: Plane, name: str) -> str:
    conditions = plane.get("pod", name).get("status", {}).get("conditions") or ()
    return next((str(condition.get("message")) for condition in conditions if condition["type"] == "PodScheduled"), "")


@pytest.mark.scenario("S26")
def test_only_patched_devices_match(plane: Plane) -> None:
    published = slices(plane)
    pod(plane, "first")
    until("it waits", lambda: "1 cannot allocate all claims" in waits(plane, "first"))
    why = plane.nodeplane("devices", "--why", "first")
    assert "of 6 devices 0 usable" in why
    assert "6        selector  selector #0 of the request is false: device.attr" in why
    patch(plane, "gold", "gpu-2")
    plane.pod_ready("first")
    until("its environment", lambda: "GPU_EXAMPLE_COM_GPU_2=" in plane.kubectl("logs", "first", check=False))
    pod(plane, "second")
    until("the only one is taken", lambda: waits(plane, "second"))
    assert holders(plane) == {"gpu-2": "first"}
    plane.delete("resourceslicepatch", "gold")
    plane.delete("pod", "first")
    patch(plane, "other", "gpu-4")
    plane.pod_ready("second")
    assert holders(plane)["gpu-4"] == "second"
    assert slices(plane) == published, "no slice is ever written"
    plane.delete("pod", "second")
    plane.delete("resourceslicepatch", "other")


def test_why_names_a_shortage_beside_devices(plane: Plane) -> None:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1k"}}}
    plane.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "huge"}, "spec": {"containers": [container]}})
    until("it waits", lambda: "1 Insufficient cpu" in waits(plane, "huge"))
    assert "Insufficient cpu: requested 1k, free " in plane.nodeplane("devices", "--why", "huge")
    plane.delete("pod", "huge")


def kill_scheduler(plane: Plane) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pids(plane, ["scheduler"])["scheduler"], signal.SIGKILL)


@pytest.mark.scenario("S41")
def test_a_taint_rule_evicts_the_pod_and_the_next_one_waits(plane: Plane) -> None:
    for number in range(2):
        pod(plane, f"p{number}")
        patch(plane, f"gold-{number}", f"gpu-{number}")
    for number in range(2):
        plane.pod_ready(f"p{number}")
    device = next(device for device, name in holders(plane).items() if name == "p0")
    taint = {"key": "example.com/broken", "value": "ecc", "effect": "NoExecute"}
    spec = {"deviceSelector": {"driver": DRIVER, "device": device}, "taint": taint}
    plane.apply({"apiVersion": ALPHA, "kind": "DeviceTaintRule", "metadata": {"name": "broken"}, "spec": spec})
    until("p0 is gone", lambda: not plane.get("pod", "p0"))
    assert plane.get("pod", "p1")["status"]["phase"] == "Running"
    pod(plane, "again")
    until("it waits", lambda: "cannot allocate all claims" in waits(plane, "again"))
    told = until("the rule is told", lambda: condition_of(plane), every=0.5)
    assert told in (
        "1 pod evicted since starting the controller.",
        "1 pod needs to be evicted in 1 namespace.",
    )
    plane.delete("devicetaintrule", "broken")
    plane.pod_ready("again")
    assert holders(plane)[device] == "again"


def test_an_extended_resource_that_a_class_stands_for(plane: Plane) -> None:
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    spec = {"selectors": selectors, "extendedResourceName": "x.dev/gpu"}
    plane.apply({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "old"}, "spec": spec})
    container = {
        "name": "main",
        "image": "busybox",
        "command": ["sh", "-c", "env | grep ^GPU_EXAMPLE; while true; do sleep 1 & wait $!; done"],
        "resources": {"limits": {"x.dev/gpu": "2"}},
    }
    body = {"terminationGracePeriodSeconds": 0, "containers": [container]}
    plane.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "classic"}, "spec": body})
    plane.pod_ready("classic")
    mine = [device for device, name in holders(plane).items() if name == "classic"]
    assert len(mine) == 2
    for word in (f"GPU_EXAMPLE_COM_{device.upper().replace('-', '_')}=" for device in mine):
        until(word, lambda word=word: word in plane.kubectl("logs", "classic", check=False))  # type: ignore[misc]  # bound at once
    entry = plane.get("pod", "classic")["status"]["containerStatuses"][0]["allocatedResourcesStatus"][0]
    assert entry["name"] == "x.dev/gpu"
    assert {(one["resourceID"].rpartition("/")[2], one["health"]) for one in entry["resources"]} == {
        (device, "Healthy") for device in mine
    }
    plane.delete("pod", "classic")
    until("its claim is gone", lambda: "classic" not in holders(plane).values())


def condition_of(plane: Plane) -> str:
    conditions = (plane.get("devicetaintrule", "broken").get("status") or {}).get("conditions") or ()
    return next(
        (str(condition["message"]) for condition in conditions if condition["type"] == "EvictionInProgress"), ""
    )


LATE = "late.example.com"


@pytest.fixture
def late_driver(plane: Plane) -> Iterator[Path]:
    """A driver whose two devices are attached a second after their allocation; yields its health file."""
    health = plane.root / "late-health.txt"
    health.write_text("late-0 Unhealthy no link\n")
    flags = ["--driver", LATE, "--devices", "2", "--attach", "1", "--health-file", str(health)]
    driver = plane.start("dra-driver", *flags, log="late.log")
    until("slices", lambda: any(each["spec"]["driver"] == LATE for each in slices(plane)))
    request = {"name": "gpu", "exactly": {"deviceClassName": LATE}}
    for kind, name, spec in (
        ("DeviceClass", LATE, {"selectors": [{"cel": {"expression": f'device.driver == "{LATE}"'}}]}),
        ("ResourceClaimTemplate", "late", {"spec": {"devices": {"requests": [request]}}}),
    ):
        plane.apply({"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec})
    yield health
    driver.terminate()
    driver.wait(20)


def test_pod_waits_for_attachment_through_failure_and_killed_scheduler(plane: Plane, late_driver: Path) -> None:
    pod(plane, "late", template="late")

    def allocated() -> dict[str, Any]:
        found = [each for each in plane.list("resourceclaim") if each["metadata"]["name"].startswith("late-")]
        return dict((found[0].get("status") or {}).get("allocation") or {}) if found else {}

    first = until("allocated", allocated)
    (result,) = first["devices"]["results"]
    assert result["bindingConditions"] == [f"{LATE}/attached"]
    terms = first["nodeSelector"]["nodeSelectorTerms"]
    assert terms[0]["matchFields"][0]["key"] == "metadata.name"
    text = 'binding failed: reason=AttachFailed, message="no link"'
    until("reported", lambda: text in str(plane.events()))
    assert not plane.get("pod", "late")["spec"].get("nodeName")
    late_driver.write_text("")
    kill_scheduler(plane)
    plane.pod_ready("late")
    until("its environment", lambda: "LATE_EXAMPLE_COM_LATE_0=" in plane.kubectl("logs", "late", check=False))
    plane.delete("pod", "late")
