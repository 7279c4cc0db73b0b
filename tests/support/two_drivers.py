"""Two DRA drivers whose every answer a test decides, on a plane that runs, and a pod with a claim of each."""

import json
from typing import Any

from protocols.wire import dra_v1_pb2 as v1
from protocols.wire import nodehealth_v1alpha1_pb2 as node_health
from protocols.wire.plugins import NODE_HEALTH
from tests.support.health_plane import HealthPlane, container, pod
from tests.support.stub_driver import StubDriver

TOLD, SILENT = "told.example.com", "silent.example.com"
"""One tells of health as the document draws it, the other has no such service."""
POD = "two"


class TwoDrivers:
    def __init__(self, made: HealthPlane) -> None:
        self._made = made
        self.told, self.silent = self._driver(TOLD), self._driver(SILENT)
        self.second = self._driver(TOLD, "-2")
        """Another instance of the first, as in a rolling update."""
        self.uids: dict[str, str] = {}
        """Of each driver's claim."""
        for driver in (self.told, self.second):
            driver.info.supported_versions.append(NODE_HEALTH)
        self.say("Healthy")

    def start(self) -> None:
        for driver in (self.told, self.silent):
            self._made.on_driver(driver.start())
        objects = [one(name) for name in (TOLD, SILENT) for one in (a_slice, a_class, a_claim)]
        self._made.plane.apply({"apiVersion": "v1", "kind": "List", "items": objects})
        for driver in (self.told, self.silent):
            uid = self.uids[driver.name] = self._made.plane.get("resourceclaim", driver.name)["metadata"]["uid"]
            driver.devices[uid] = [v1.Device(pool_name="n1", device_name="dev-0")]
        self.second.devices = self.told.devices
        self._made.plane.apply(a_pod())

    def say(self, state: str) -> None:
        status = node_health.Device(pool_name="n1", device_name="dev-0", health=state)

        async def change() -> None:
            for driver in (self.told, self.second):
                driver.statuses = [status]
                driver.change()

        self._made.on_driver(change())

    def update(self) -> None:
        """The second instance comes, then the first goes."""
        self._made.on_driver(self.second.start())
        self._made.expect("the second instance", lambda: self.second.told)

    def asked(self, driver: StubDriver, method: str) -> int:
        return len(driver.called(method))

    def kept(self) -> str:
        """What the node remembers of claims."""
        return (self._made.plane.root / "kubelet" / "dra_manager_state").read_text()

    def devices_kept(self) -> int:
        inner = json.loads(json.loads(self.kept())["Data"])["ClaimInfoStateList"] or ()
        mine = [claim for claim in inner if claim["ClaimUID"] in self.uids.values()]
        return sum(len(state["Devices"]) for claim in mine for state in claim["DriverState"].values())

    def close(self) -> None:
        for driver in (self.told, self.silent, self.second):
            self._made.on_driver(driver.stop())

    def _driver(self, name: str, instance: str = "") -> StubDriver:
        return StubDriver(self._made.plane.root / "kubelet", name, instance)


def a_slice(driver: str) -> dict[str, Any]:
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": driver},
        "spec": {"driver": driver, "pool": pool, "allNodes": True, "devices": [{"name": "dev-0"}]},
    }


def a_class(driver: str) -> dict[str, Any]:
    selectors = [{"cel": {"expression": f'device.driver == "{driver}"'}}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": driver},
        "spec": {"selectors": selectors},
    }


def a_claim(driver: str) -> dict[str, Any]:
    request = {"name": "one", "exactly": {"deviceClassName": driver}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": driver},
        "spec": {"devices": {"requests": [request]}},
    }


def a_pod() -> dict[str, Any]:
    claims = [{"name": name.partition(".")[0], "resourceClaimName": name} for name in (TOLD, SILENT)]
    named = [{"name": claim["name"]} for claim in claims]
    return pod(POD, container("exec sleep 100000", {"claims": named}), resourceClaims=claims)
