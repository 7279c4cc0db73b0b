"""A plane with a device plugin and a DRA driver whose devices a test makes ill and well, and pods in every state."""

import asyncio
import os
import subprocess
import threading
from collections.abc import Callable, Coroutine
from signal import SIGKILL
from typing import Any

import msgspec

from protocols.messages.supervisor import KILL, Empty, KillActor
from protocols.process.layout import Layout
from protocols.process.settings import load_settings, save_settings
from protocols.wire import dra_v1_pb2 as v1
from protocols.wire import drahealth_v1_pb2 as health
from protocols.wire.plugins import HEALTH_V1
from supervisor.client.connection import Asking, ask
from tests.support.actor_process import Process
from tests.support.plane import Plane, until
from tests.support.stub_driver import StubDriver, told_health
from tests.support.witnesses import allocatable

GPUS, SLOTS = 4, 3
DRIVER, NIC = "gpu.example.com", "nic.example.com"
FIELD = "allocatedResourcesStatus"
PATIENT = {"health_check_timeout_seconds": 3600}
"""The stub sends no heartbeat."""
Health = dict[str, str]
"""By resourceID."""


class HealthPlane:
    """Pods: `runs`, `crashes` (in a loop), `waits` (for a ConfigMap that is not there) and `failed` hold one device of
    the plugin each; `claims` has a claim of both its containers, which `shares` has too, and one of none; `burnt` had
    one and failed."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.driver = StubDriver(plane.root / "kubelet", DRIVER)
        self.file = plane.root / "gpus.health"
        self.plugin = self.start_plugin()
        self.ids: list[str] = []
        """Devices of the plugin that pods hold."""

    def close(self) -> None:
        self.on_driver(self.driver.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    def on_driver(self, action: Coroutine[Any, Any, Any]) -> None:
        asyncio.run_coroutine_threadsafe(action, self._loop).result(60)

    def start_plugin(self) -> Process:
        flags = ["--resource", "example.com/gpu", "--devices", str(GPUS), "--health-file", str(self.file)]
        return self.plane.start("plugin", *flags, log="spawned.log")

    def spawn(self, *command: str, **environment: str) -> "subprocess.Popen[bytes]":
        """A process beside the plane; it ends with it."""
        with (self.plane.root / "spawned.log").open("ab") as log:
            around = {**self.plane.environment, **environment}
            process = subprocess.Popen(command, stdout=log, stderr=log, env=around)
        self.plane.plugins.append(process)
        return process

    def start(self) -> None:
        """Devices, claims, and every pod as far as it comes."""
        self.driver.info.supported_versions.append(HEALTH_V1)
        self.driver.health = [told_health(f"dev-{slot}", **PATIENT) for slot in range(SLOTS)]
        self.on_driver(self.driver.start())
        self.plane.apply(
            {"apiVersion": "v1", "kind": "List", "items": [a_slice(), a_class(), *map(a_claim, range(SLOTS))]}
        )
        for slot in range(SLOTS):
            claim = until("the claim", lambda slot=slot: self.plane.get("resourceclaim", f"slot-{slot}"))  # type: ignore[misc] # bound at once
            uid = claim["metadata"]["uid"]
            self.driver.devices[uid] = [v1.Device(pool_name="n1", device_name=f"dev-{slot}", request_names=["gpu"])]
        until("the plugin's devices", lambda: allocatable(self.plane) == str(GPUS), every=0.1)
        self.plane.apply({"apiVersion": "v1", "kind": "List", "items": pods()})
        until("every pod in its state", self._in_their_states, 100, every=0.2)
        shown = {one for devices in until("all of them", self.shown).values() for one in devices}
        self.ids = sorted(one for one in shown if not one.startswith(f"{DRIVER}/"))

    def set(self, state: str) -> None:
        """Every device, of plugin and driver."""
        self.set_plugin(state)
        value = health.UNHEALTHY if state == "Unhealthy" else health.HEALTHY
        message = "burnt" if state == "Unhealthy" else ""

        async def report() -> None:
            self.driver.report(
                *(told_health(f"dev-{slot}", value, message=message, **PATIENT) for slot in range(SLOTS))
            )

        self.on_driver(report())

    def set_plugin(self, state: str, *devices: str) -> None:
        """Of these devices, else of all. As one change: who follows the file sees the old or the new."""
        made = self.file.with_suffix(".new")
        made.write_text("".join(f"{device} {state}\n" for device in devices or self.ids))
        os.replace(made, self.file)

    def shown(self) -> dict[str, Health]:
        """By pod: every device in its status; {} while nobody answers."""
        return {pod["metadata"]["name"]: devices_of(pod["status"]) for pod in self.plane.list("pod")}

    def all_are(self, state: str, *others: str) -> Callable[[], bool]:
        """Every pod shows all its devices in that state, but for `others`, which are not looked at."""

        def look() -> bool:
            shown = {name: devices for name, devices in self.shown().items() if name not in others}
            whole = len(shown) == len(pods()) - len(others) and all(shown.values())
            return whole and {health for devices in shown.values() for health in devices.values()} == {state}

        return look

    def expect(self, what: str, holds: Callable[[], object], seconds: float = 90) -> None:
        """`until`, and the whole picture when it does not come about."""
        try:
            until(what, holds, seconds, every=0.1)
        except AssertionError as error:
            status = self.plane.nodeplane("status", check=False)
            self.plane.show_logs()
            raise AssertionError(f"{error}\n{self.shown()}\n{status}") from None

    def kill(self, *actors: str, signal: int = SIGKILL) -> None:
        """kill -9 of each, as far as it lives; ordered, so that the supervisor makes no pause for it."""

        async def order(asking: Asking) -> None:
            for actor in actors:
                await asking.call("supervisor", KILL, KillActor(instance=actor, signal=signal), Empty, timeout=20)

        root = self.plane.root
        ask(Layout(root=root, kubelet=root / "kubelet"), order)

    def settings(self, **changed: Any) -> None:
        """What actors that start from now on read."""
        path = self.plane.root / "run" / "settings.json"
        save_settings(path, msgspec.structs.replace(load_settings(path), **changed))

    def _in_their_states(self) -> bool:
        names = ("crashes", "waits", "failed", "burnt")
        found = {name: self.plane.get("pod", name).get("status", {}) for name in names}
        ended = all(found[name].get("phase") == "Failed" for name in ("failed", "burnt"))
        held_up = waiting(found["crashes"]) == "CrashLoopBackOff" and waiting(found["waits"])
        return bool(ended and held_up) and self.all_are("Healthy")()


def waiting(status: dict[str, Any]) -> str:
    statuses = status.get("containerStatuses") or [{}]
    return str(statuses[0].get("state", {}).get("waiting", {}).get("reason", ""))


def devices_of(status: dict[str, Any]) -> Health:
    """Of the pod's containers and of its own; a device that stands twice stands with the same health."""
    found: Health = {}
    for owner in (status, *status.get("containerStatuses", ()), *status.get("initContainerStatuses", ())):
        for entry in owner.get(FIELD, ()):
            for device in entry["resources"]:
                assert found.setdefault(device["resourceID"], device["health"]) == device["health"]
    return found


def pods() -> list[dict[str, Any]]:
    gpu = {"limits": {"example.com/gpu": 1}}
    missing = [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "not-there", "key": "x"}}}]
    claims = [{"name": "gpu", "resourceClaimName": "slot-0"}, {"name": "spare", "resourceClaimName": "slot-1"}]
    shared = [{"name": "x", "resourceClaimName": "slot-0"}]
    burnt = [{"name": "gpu", "resourceClaimName": "slot-2"}]
    return [
        pod("runs", container("exec sleep 100000", gpu)),
        pod("crashes", container("exit 1", gpu)),
        pod("waits", container("exit 1", gpu, env=missing)),
        pod("failed", container("exit 1", gpu), restartPolicy="Never"),
        pod(
            "claims",
            container("exec sleep 100000", {"claims": [{"name": "gpu", "request": "gpu"}]}),
            container("exec sleep 100000", {"claims": [{"name": "gpu"}]}, name="beside"),
            resourceClaims=claims,
        ),
        pod("shares", container("exec sleep 100000", {"claims": [{"name": "x"}]}), resourceClaims=shared),
        pod("burnt", container("exit 1", {"claims": [{"name": "gpu"}]}), restartPolicy="Never", resourceClaims=burnt),
    ]


def pod(name: str, *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    whole = {"terminationGracePeriodSeconds": 1, "containers": list(containers), **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": whole}


def container(script: str, resources: dict[str, Any], name: str = "main", **more: Any) -> dict[str, Any]:
    command = ["sh", "-c", script]
    return {"name": name, "image": "busybox", "command": command, "resources": resources, **more}


def a_slice() -> dict[str, Any]:
    devices = [{"name": f"dev-{slot}", "attributes": {"slot": {"int": slot}}} for slot in range(SLOTS)]
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "all"},
        "spec": {"driver": DRIVER, "pool": pool, "allNodes": True, "devices": devices},
    }


def a_class() -> dict[str, Any]:
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": DRIVER}, "spec": {}}


def nic_class() -> dict[str, Any]:
    selectors = [{"cel": {"expression": f'device.driver == "{NIC}"'}}]
    metadata = {"name": NIC}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": metadata,
        "spec": {"selectors": selectors},
    }


def nic_template() -> dict[str, Any]:
    request = {"name": "nic", "exactly": {"deviceClassName": NIC}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "nic"},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }


def nic_pod() -> dict[str, Any]:
    claims = [{"name": "nic", "resourceClaimTemplateName": "nic"}]
    return pod("nic", container("exec sleep 100000", {"claims": [{"name": "nic"}]}), resourceClaims=claims)


def a_claim(slot: int) -> dict[str, Any]:
    expression = f'device.attributes["{DRIVER}"].slot == {slot}'
    exactly = {"deviceClassName": DRIVER, "selectors": [{"cel": {"expression": expression}}]}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": f"slot-{slot}"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }
