"""A bad day of a fleet on a real plane: every kind of fault, by script and live, and kill -9 in the middle."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.fleet.faults.choice import choose_nodes, draws
from actors.fleet.faults.script import Fault
from tests.support.actor_process import Process
from tests.support.plane import Plane, condition, until

RESOURCE, DRIVER = "example.com/gpu", "gpu.example.com"
PROFILE: dict[str, Any] = {
    "name": "bad-day",
    "groups": [
        {
            "name": "gpu",
            "count": 20,
            "plugins": [{"resource": RESOURCE, "devices": 2}],
            "drivers": [{"driver": DRIVER, "slices": [{"devices": [{"name": "gpu-{i}", "repeat": 4}]}]}],
        },
        {"name": "cpu", "count": 10},
    ],
}
DAY = {
    "steps": [
        {
            "at": "1.5s",
            "nodes": "gpu-?",
            "share": "50%",
            "plugin": RESOURCE,
            "health": "Unhealthy",
            "message": "too hot",
        },
        {"at": "1s", "nodes": "gpu-1", "driver": DRIVER, "state": "gone"},
        {"at": "1.2s", "nodes": "gpu-[2-5]", "crash": "50%", "exitCode": 3},
        {"at": "1.2s", "nodes": "gpu-3", "slices": "republish", "without": "50%"},
        {"at": "1.4s", "nodes": "gpu-1?", "plugin": RESOURCE, "state": "gone", "lasts": "500ms"},
        {"at": "1.4s", "every": "100ms", "until": "1.6s", "driver": DRIVER, "health": "Unhealthy", "devices": "10%"},
        {"at": "1.6s", "group": "cpu", "count": 1, "node": "silent", "seed": 4},
    ],
}
PODS = [f"p-{n}" for n in range(10)]


class Lab:
    """A plane, and a fleet of 30 nodes beside it."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.runs: list[Process] = []
        self._write("profile", PROFILE)
        self._write("day", DAY)

    def _write(self, name: str, content: object) -> Path:
        path = self.plane.root / f"{name}.yaml"
        path.write_text(json.dumps(content))
        return path

    def run(self, *flags: str) -> Process:
        process = self.plane.start(
            "fleet", "run", str(self.plane.root / "profile.yaml"), *flags, log=f"fleet-{len(self.runs)}.log"
        )
        self.runs.append(process)
        until("the nodes are registered", lambda: "30 nodes registered" in self.said(len(self.runs) - 1))
        return process

    def said(self, run: int) -> str:
        return (self.plane.root / f"fleet-{run}.log").read_text()

    def played(self, run: int) -> list[str]:
        """Return what the steps of the script hit."""
        return [line for line in self.said(run).splitlines() if line.startswith("at ")]

    def kill(self, process: Process) -> None:
        process.kill()
        process.wait(20)

    def fault(self, *flags: str) -> str:
        return self.plane.nodeplane("fleet", "fault", *flags).strip()

    def status(self) -> Any:
        return json.loads(self.plane.nodeplane("fleet", "status", "-o", "json"))

    def health(self, pod: str) -> str:
        entries = self._container(pod).get("allocatedResourcesStatus") or [{"resources": [{"health": ""}]}]
        return str(entries[0]["resources"][0]["health"])

    def restarts(self, pod: str) -> int:
        return int(self._container(pod).get("restartCount", -1))

    def _container(self, pod: str) -> dict[str, Any]:
        statuses = self.plane.get("pod", pod).get("status", {}).get("containerStatuses") or [{}]
        return dict(statuses[0])

    def slices(self, node: str) -> list[tuple[int, int]]:
        specs = [each["spec"] for each in self.plane.list("resourceslice")]
        return [(spec["pool"]["generation"], len(spec["devices"])) for spec in specs if spec.get("nodeName") == node]

    def allocatable(self, node: str) -> str:
        return str(self.plane.get("node", node).get("status", {}).get("allocatable", {}).get(RESOURCE))

    def healthy(self) -> bool:
        return {self.health(pod) for pod in [*PODS, "claiming"]} == {"Healthy"}


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Plane() as plane:
        yield Lab(plane)


def pod(name: str, node: str) -> dict[str, Any]:
    container = {"name": "main", "image": "x", "resources": {"limits": {RESOURCE: "1"}}}
    spec = {"nodeName": node, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def make_pods(plane: Plane) -> None:
    """Make a pod with a plugin's device on each of ten nodes, and one with a claim on gpu-1."""
    for number, name in enumerate(PODS):
        plane.apply(pod(name, f"gpu-{number}"))
    devices = {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}
    dra = {"apiVersion": "resource.k8s.io/v1"}
    selectors = [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]
    plane.apply({**dra, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {"selectors": selectors}})
    plane.apply({**dra, "kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": {"devices": devices}})
    container = {"name": "main", "image": "x", "resources": {"claims": [{"name": "gpu"}]}}
    spec = {
        "nodeSelector": {"kubernetes.io/hostname": "gpu-1"},
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}],
        "containers": [container],
    }
    plane.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "claiming"}, "spec": spec})


def test_bad_day(lab: Lab) -> None:
    plane = lab.plane
    first = lab.run()
    make_pods(plane)
    until("all devices are healthy", lab.healthy)

    # live

    assert lab.fault("--nodes", "gpu-0", "--plugin", RESOURCE, "--health", "Unhealthy", "--message", "hot") == (
        f"1 of 30 nodes: {RESOURCE} Unhealthy (2 devices, 1 pods)"
    )
    until("the device is unhealthy", lambda: lab.health(PODS[0]) == "Unhealthy")
    status = lab.status()
    assert (status["nodes"], status["registered"], status["pods"]) == (30, 30, {"Running": 11})
    counted = next(device for device in status["devices"] if device["name"] == RESOURCE)
    assert counted["health"] == {"Healthy": 38, "Unhealthy": 2, "Unknown": 0}

    # killed; the next run plays a script

    lab.kill(first)
    second = lab.run("--script", str(plane.root / "day.yaml"), "--seed", "7")
    until("all devices are healthy again", lab.healthy)
    until("the script is over", lambda: "the script is over" in lab.said(1))
    hot = until("five devices are too hot", lambda: found if len(found := unhealthy(lab)) == 5 else [])
    until("two pods restarted", lambda: sum(map(lab.restarts, PODS)) == 2)
    until("the driver is gone", lambda: lab.health("claiming") == "Unknown")
    until("half of a pool is published", lambda: lab.slices("gpu-3") == [(2, 2)])
    assert lab.slices("gpu-4") == [(1, 4)]
    until("the plugins are back", lambda: {lab.allocatable(f"gpu-1{n}") for n in range(10)} == {"2"})
    until("events", lambda: set(hot) == warned(plane))
    check_silence(lab)

    # killed in the middle of the day; the same seed hits the same, and nothing is there twice

    lab.kill(second)
    third = lab.run("--script", str(plane.root / "day.yaml"), "--seed", "7")
    until("the script is over", lambda: "the script is over" in lab.said(2))
    assert lab.played(2) == lab.played(1)
    until("the same devices are too hot", lambda: unhealthy(lab) == hot)
    until("the pool has half of its devices", lambda: lab.slices("gpu-3") == [(4, 2)])
    names = [each["metadata"]["name"] for each in plane.list("node")]
    assert len(names) == len(set(names)) == 31
    assert len(plane.list("pod")) == 11
    third.terminate()
    assert third.wait(20) == 0
    assert not (plane.root / "run" / "fleet-fleet.sock").exists()


def unhealthy(lab: Lab) -> list[str]:
    return [name for name in PODS if lab.health(name) == "Unhealthy"]


def warned(plane: Plane) -> set[str]:
    events = (each for each in plane.list("event") if each["reason"] == "DeviceUnhealthy")
    return {event["involvedObject"]["name"] for event in events if "too hot" in event["message"]}


def check_silence(lab: Lab) -> None:
    """See the node that fell silent neither renew nor report, and report once it is back."""
    groups = {f"cpu-{n}": "cpu" for n in range(10)}
    (node,) = choose_nodes(Fault(node="silent", group="cpu", count=1), groups, draws(7, 4, 0))
    assert lab.status()["silent"] == 1
    renewed = lab.plane.get("lease", node, "kube-node-lease")["spec"]["renewTime"]
    ready = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
    lab.plane.kubectl("patch", "node", node, "--subresource=status", "-p", json.dumps(ready))
    lab.fault("--group", "cpu", "--count", "1", "--seed", "4", "--node", "back")
    until("the node is back", lambda: condition(lab.plane.get("node", node), "Ready") == "True")
    until("its lease", lambda: lab.plane.get("lease", node, "kube-node-lease")["spec"]["renewTime"] > renewed)
    assert lab.status()["silent"] == 0
