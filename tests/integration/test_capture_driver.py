"""`nodeplane capture DRIVER` on a plane: a driver that fails, its script written from its calls, and played again."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.plane import REPO, Plane, stop, until

DRIVER = "gpu.example.com"
BUG = """
driver: gpu.example.com
devices:
- name: left
  attributes: {slot: {int: 1}}
  capacity: {memory: {value: 8Gi}}
- {name: right, health: Unhealthy, message: ECC, attributes: {slot: {int: 2}}}
calls:
  NodePrepareResources:
  - {delay: 700ms, claims: {"two-*": {error: out of luck}}}
  - {times: 99, claims: {"two-*": {error: out of luck}}}
"""


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """A plane with the device class and the claim template of the example."""
    with Plane() as plane:
        classes, _, _ = (REPO / "examples" / "gpu-claim.yaml").read_text().rpartition("---\n")
        plane.kubectl("apply", "-f", "-", stdin=classes)
        yield plane


def pod(name: str) -> dict[str, Any]:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    container = {"name": "main", "image": "busybox", "command": ["sleep", "1000"]}
    container["resources"] = {"claims": [{"name": "gpu"}]}  # type: ignore[assignment]  # of another shape
    spec = {"terminationGracePeriodSeconds": 0, "resourceClaims": claims, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def play(plane: Plane, script: Path) -> dict[str, Any]:
    """Play a script with a pod that runs and one that fails twice; return what the pods and the calls show."""
    driver = plane.start("dra-driver", "--script", str(script), log=f"{script.stem}.log")
    until("devices", lambda: [device for item in plane.list("resourceslice") for device in item["spec"]["devices"]])
    plane.apply(pod("one"))
    plane.pod_ready("one")
    plane.apply(pod("two"))
    until("two failures", lambda: len(calls(plane, "two")) >= 2)
    seen = {
        "reasons": until("the pod's event", lambda: reasons(plane)),
        "devices": [item["spec"]["devices"] for item in plane.list("resourceslice")],
        "calls": [shown(each) for name in ("one", "two") for each in calls(plane, name)[:2]],
    }
    seen["captured"] = plane.nodeplane("capture", DRIVER)
    plane.kubectl("delete", "pod", "one", "two", "--now")
    until("unprepared", lambda: not json.loads(plane.kubectl("get", "resourceclaims", "-o", "json"))["items"])
    stop(driver)
    return seen


def reasons(plane: Plane) -> set[str]:
    events = json.loads(plane.kubectl("get", "events", "-o", "json"))["items"]
    return {
        re.sub(r"two-gpu-\w{5}", "CLAIM", event["message"])
        for event in events
        if event["reason"] == "FailedPrepareDynamicResources" and "out of luck" in event["message"]
    }


def calls(plane: Plane, name: str) -> list[dict[str, Any]]:
    lines = plane.nodeplane("calls", DRIVER, "-o", "json").splitlines()
    records = [json.loads(line) for line in lines]
    begun = max(each["began_ns"] for each in records if each["method"] == "GetInfo")
    prepared = [each for each in records if each["method"] == "NodePrepareResources" and each["began_ns"] > begun]
    return [each for each in prepared if each["status"] and f"/{name}" in each["subject"]]


def shown(call: dict[str, Any]) -> tuple[Any, ...]:
    """The answer without uids, and whether it took the delay."""
    (answer,) = call["reply"]["claims"].values()
    return call["status"], answer.get("error"), len(answer.get("devices", ())), call["seconds"] > 0.6


def test_captured_failure_of_one_claim_is_seen_by_the_same_pod_again(plane: Plane, tmp_path: Path) -> None:
    bug, replay = tmp_path / "bug.yaml", tmp_path / "replay.yaml"
    bug.write_text(BUG)
    first = play(plane, bug)
    script = yaml.safe_load(first["captured"])
    assert script["devices"] == yaml.safe_load(BUG)["devices"]
    faults = script["calls"]["NodePrepareResources"]
    assert float(faults[0]["delay"].removesuffix("s")) >= 0.7
    assert [fault["claims"] for fault in faults] == [{"two-gpu-*": {"error": "out of luck"}}] * len(faults)
    replay.write_text(first["captured"])
    second = play(plane, replay)
    assert {**first, "captured": ""} == {**second, "captured": ""}
    assert first["calls"] == [("OK", None, 1, True), ("OK", "out of luck", 0, False), ("OK", "out of luck", 0, False)]


def test_name_that_nothing_has_is_one_error(plane: Plane) -> None:
    with pytest.raises(AssertionError, match=r"no resource or driver is called 'nic.example.com'; there are: gpu"):
        plane.nodeplane("capture", "nic.example.com")
