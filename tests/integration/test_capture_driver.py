"""`nodeplane capture DRIVER` on a plane: a driver that fails, its script written from its calls, and played again."""

import asyncio
import gc
import json
import os
import re
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from supervisor.capture.devices import Version
from supervisor.capture.session import followed
from tests.support.plane import REPO, Plane, stop, until
from tests.support.waiting import until_async

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


ODD = "odd.example.com"
ODD_SCRIPT = """
driver: odd.example.com
healthTimeout: 3
versions: [v1.DRAPlugin, v1.DRAResourceHealth]
devices: [{name: left}, {name: right, away: true}]
calls: {GetInfo: [{info: {type: CSIPlugin}}]}
steps:
- {at: 2.5s, add: [right]}
- {at: 3s, silent: true}
- {at: 8s, silent: false}
"""
KEP = "kep.example.com"
KEP_SCRIPT = """
driver: kep.example.com
devices: [{name: left}]
versions: [v1.DRAPlugin, v1alpha1.NodeHealth]
steps: [{at: 1s, unhealthy: [left], message: fan}]
"""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A plane with the device class and the claim template of the example, which is recorded."""
    with Plane("--record", str(tmp_path_factory.mktemp("record") / "record")) as plane:
        classes, _, _ = (REPO / "examples" / "gpu-claim.yaml").read_text().rpartition("---\n")
        plane.kubectl("apply", "-f", "-", stdin=classes)
        yield plane


def pod(name: str) -> dict[str, Any]:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    container = {"name": "main", "image": "busybox", "command": ["sleep", "1000"]}
    container["resources"] = {"claims": [{"name": "gpu"}]}  # type: ignore[assignment]  # of another shape
    spec = {"terminationGracePeriodSeconds": 0, "resourceClaims": claims, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


VIEWS = (
    *("devices", "devices --plugins", "devices --drivers", "devices --patched", "devices --shares"),
    *("devices --why two", "cpus", "status", "trace one", "trace --diff one two"),
)


def play(plane: Plane, script: Path, views: Sequence[str] = ()) -> dict[str, Any]:
    """Play a script with a pod that runs and one that fails twice; return what the pods and the calls show.

    The JSON of `views` is held to its schemas by the plane.
    """
    driver = plane.start("dra-driver", "--script", str(script), log=f"{script.stem}.log")
    until("devices", lambda: [device for item in plane.list("resourceslice") for device in item["spec"]["devices"]])
    plane.apply(pod("one"))
    plane.pod_ready("one")
    plane.apply(pod("two"))
    until("two failures", lambda: len(calls(plane, "two")) >= 2)
    seen = {
        "reasons": until("the pod's event", lambda: reasons(plane)),
        "devices": [item["spec"]["devices"] for item in plane.list("resourceslice")],
        "calls": [shown(call) for name in ("one", "two") for call in calls(plane, name)[:2]],
    }
    seen["captured"] = plane.nodeplane("capture", DRIVER)
    assert all(plane.nodeplane(*view.split(), "-o", "json") for view in views)
    plane.delete("pod", "one", "two", grace_s=1)
    until("unprepared", lambda: not plane.list("resourceclaim"))
    stop(driver)
    return seen


def reasons(plane: Plane) -> set[str]:
    return {
        re.sub(r"two-gpu-\w{5}", "CLAIM", event["message"])
        for event in plane.events(reason="FailedPrepareDynamicResources")
        if "out of luck" in event["message"]
    }


def calls(plane: Plane, name: str) -> list[dict[str, Any]]:
    lines = plane.nodeplane("calls", DRIVER, "-o", "json").splitlines()
    records = [json.loads(line) for line in lines]
    begun = max(record["began_ns"] for record in records if record["method"] == "GetInfo")
    prepared = [
        record for record in records if record["method"] == "NodePrepareResources" and record["began_ns"] > begun
    ]
    return [each for each in prepared if each["status"] and f"/{name}" in each["subject"]]


def shown(call: dict[str, Any]) -> tuple[Any, ...]:
    """The answer without uids, and whether it took the delay."""
    (answer,) = call["reply"]["claims"].values()
    return call["status"], answer.get("error"), len(answer.get("devices", ())), call["seconds"] > 0.6


def test_captured_failure_of_one_claim_is_seen_by_the_same_pod_again(plane: Plane, tmp_path: Path) -> None:
    bug, replay = tmp_path / "bug.yaml", tmp_path / "replay.yaml"
    bug.write_text(BUG)
    first = play(plane, bug, VIEWS)
    script = yaml.safe_load(first["captured"])
    assert script["devices"] == yaml.safe_load(BUG)["devices"]
    faults = script["calls"]["NodePrepareResources"]
    assert float(faults[0]["delay"].removesuffix("s")) >= 0.7
    assert [fault["claims"] for fault in faults] == [{"two-gpu-*": {"error": "out of luck"}}] * len(faults)
    replay.write_text(first["captured"])
    second = play(plane, replay)
    assert {**first, "captured": ""} == {**second, "captured": ""}
    assert first["calls"] == [("OK", None, 1, True), ("OK", "out of luck", 0, False), ("OK", "out of luck", 0, False)]


def test_silence_wrong_information_and_devices_that_come_are_captured(plane: Plane, tmp_path: Path) -> None:
    for name, text in ((ODD, ODD_SCRIPT), (KEP, KEP_SCRIPT)):
        (tmp_path / f"{name}.yaml").write_text(text)
        plane.start("dra-driver", "--script", str(tmp_path / f"{name}.yaml"), log=f"{name}.log")
    server = plane.status()["apiserver-0"]["pid"]
    try:
        followed_names = asyncio.run(names_until_two(plane.root / "kubeconfig", server))
    finally:
        os.kill(server, signal.SIGCONT)
    gc.collect()  # a connection that was left open fails the test
    assert followed_names[-2:] == [{"left"}, {"left", "right"}]
    recorded = ("capture", ODD, "--replay", plane.flags[1])
    script = until("it speaks again", lambda: speaking(plane.nodeplane(*recorded, check=False)), every=1.0)
    assert (script["healthTimeout"], script["calls"]) == (3, {"GetInfo": [{"info": {"type": "CSIPlugin"}}]})
    assert script["devices"][1] == {"name": "right", "away": True}
    at = {next(key for key in step if key != "at"): step["at"] for step in script["steps"] if len(step) > 1}
    assert near(at["add"], 2.5)
    silent = [step for step in script["steps"] if "silent" in step]
    assert [step["silent"] for step in silent] == [True, False]
    assert near(silent[0]["at"], 2.6)
    assert near(silent[1]["at"], 8.0)
    kep = yaml.safe_load(plane.nodeplane("capture", KEP))
    assert kep["versions"] == ["v1.DRAPlugin", "v1alpha1.NodeHealth"]
    assert [(step["health"], step["message"]) for step in kep["steps"]] == [({"left": "Unhealthy"}, "fan")]


async def names_until_two(kubeconfig: Path, server: int) -> list[set[str]]:
    """Follow the slices until two devices are published, and leave a server that does not answer to that."""
    async with followed(kubeconfig, ODD) as versions:
        await until_async("two devices", lambda: len((names(versions) or [set()])[-1]) == 2)
        os.kill(server, signal.SIGSTOP)
        return names(versions)


def names(versions: list[Version]) -> list[set[str]]:
    return [{device["name"] for obj in slices for device in obj["spec"]["devices"]} for _, slices in versions]


def speaking(text: str) -> dict[str, Any]:
    script: dict[str, Any] = yaml.safe_load(text) or {}
    return script if any(step.get("silent") is False for step in script.get("steps", ())) else {}


def near(text: str, seconds: float) -> bool:
    """Return True for the time of a step that comes after another: publishing and sending take a moment."""
    return -0.7 <= float(text.removesuffix("s")) - seconds <= 2.0


def test_name_that_nothing_has_is_one_error(plane: Plane) -> None:
    with pytest.raises(AssertionError, match=r"no resource or driver is called 'nic.example.com'; there are: gpu"):
        plane.nodeplane("capture", "nic.example.com")
