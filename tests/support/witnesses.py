"""Those who look on while a plane is mistreated: a writer and three watchers, and what must be true afterwards."""

from typing import Any

from tests.support import oracle
from tests.support.equality import replicas_equal
from tests.support.plane import Plane, until
from tests.support.podwatch import PodWatch
from tests.support.watchers import ApiWatcher
from tests.support.writer import Writer

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


class Witnesses:
    """`with Witnesses(plane):` breaks may come inside; at the end all that was told must add up, and nothing be lost.

    What replicas hold is compared with their owners each time; that they say so as well (their positions), and that no
    file was left, modules ask once, after all their tests (`settled`).
    """

    def __init__(self, plane: Plane, per_second: float = 20.0) -> None:
        self.plane = plane
        self.pods, self.configmaps = ApiWatcher(plane, "/api/v1/pods"), ApiWatcher(plane, CONFIGMAPS)
        self.resources, self.writer = PodWatch(plane), Writer(plane, per_second)

    def __enter__(self) -> "Witnesses":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            self.writer.close()
            if error is None:
                self.judge()
        finally:
            for watcher in (self.pods, self.configmaps, self.resources):
                watcher.close()

    def judge(self) -> None:
        self.writer.nothing_lost()
        oracle.watch_missed_nothing(self.plane, self.pods, "/registry/pods/")
        oracle.watch_missed_nothing(self.plane, self.configmaps, "/registry/configmaps/default/")
        until("the resource watch up to date", self._agrees)
        self.resources.is_consistent()
        oracle.no_device_twice(self.plane)
        replicas_equal(self.plane, self.resources)

    def _agrees(self) -> bool:
        return dict(self.resources.pods.values()) == self.resources.listed()


def lives(plane: Plane) -> dict[str, tuple[int, int]]:
    """Pid and restarts of every actor: equal before and after when nobody was disturbed."""
    return {name: (actor["pid"], actor["restarts"]) for name, actor in plane.status().items()}


def others(before: dict[str, tuple[int, int]], *victims: str) -> dict[str, tuple[int, int]]:
    return {name: life for name, life in before.items() if name not in victims}


def pod(name: str, script: str = "exec sleep 100000", devices: int = 0, grace: int = 1, **spec: Any) -> dict[str, Any]:
    """A pod of one container that runs a shell script."""
    container: dict[str, Any] = {"name": "main", "image": "busybox", "command": ["sh", "-c", script]}
    if devices:
        container["resources"] = {"limits": {"example.com/gpu": devices}}
    whole = {"terminationGracePeriodSeconds": grace, "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": whole}


def main_status(found: dict[str, Any]) -> dict[str, Any]:
    statuses = found.get("status", {}).get("containerStatuses", [{}])
    return dict(statuses[0])


def device_health(found: dict[str, Any]) -> dict[str, str]:
    entries = main_status(found).get("allocatedResourcesStatus", [])
    return {item["resourceID"]: item["health"] for entry in entries for item in entry["resources"]}


def container_of(plane: Plane, name: str) -> tuple[int, str]:
    """Pid and devices of the one container of a pod that holds devices, from /proc; (0, "") when none runs."""
    found = {pid: around for pid, around in oracle.containers(plane).items() if around.get("HOSTNAME") == name}
    assert len(found) <= 1, f"{name} runs more than once: {found}"
    return next(((pid, around["EXAMPLE_COM_GPU"]) for pid, around in found.items()), (0, ""))


def allocatable(plane: Plane) -> str:
    """What the node offers of the devices, as text; "" when nobody answers."""
    node = next(iter(plane.list("node")), {})
    return str(node.get("status", {}).get("allocatable", {}).get("example.com/gpu", ""))


def with_devices(plane: Plane) -> Plane:
    """A plugin of four devices on two NUMA nodes, as the node's allocatable shows."""
    plane.plugin()
    until("4 devices", lambda: allocatable(plane) == "4", every=0.1)
    return plane
