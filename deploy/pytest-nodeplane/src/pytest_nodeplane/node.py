"""The node as one test sees it: a namespace, devices and processes of its own, and what may go wrong on purpose."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import yaml

from protocols.kube.meta import event_time
from protocols.messages.calls import CallRecord
from protocols.messages.devices import PLUGIN_GONE, PLUGIN_SERVES, ChaosDevice, PluginView
from pytest_nodeplane.drivers import PreparedDevice, prepare
from pytest_nodeplane.plane import Plane
from pytest_nodeplane.processes import Process
from pytest_nodeplane.resources import PodResources
from pytest_nodeplane.sentences import devices_sentence, first_line_with, programs_sentence, waiting_pod
from pytest_nodeplane.waiting import TIMEOUT_S, PodWait, until
from supervisor.base.errors import UsageError
from supervisor.client.devices import DeviceRow
from supervisor.client.drivers import ClaimDeviceRow
from supervisor.testing.api import ApiError
from supervisor.testing.evidence import folded_lines
from supervisor.trace.collect import PodTrace

Manifest = str | Path | Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""YAML or JSON text, a file of it, one object, or several."""
Object = dict[str, Any]
T = TypeVar("T")
UNHEALTHY, CLEAR = "unhealthy", ""
SIGKILL = int(signal.SIGKILL)


class Node:
    """Everything it makes is gone when the test has ended."""

    def __init__(self, plane: Plane, namespace: str = "") -> None:
        self.plane = plane
        self.namespace = namespace or f"test-{uuid4().hex[:10]}"
        self._further = bool(namespace)
        self.pod_resources = PodResources(plane)
        self.processes: list[Process] = []
        self._cluster_objects: list[str] = []
        self._overridden: set[tuple[str, str]] = set()
        self._restarted = False
        self._gone_before: dict[str, tuple[PluginView, ...]] = {}
        self._withdrawn = False
        self._begun_ns = time.time_ns()

    # set-up and end, for the fixture

    def begin(self) -> None:
        """Make the namespace; return when pods can be created in it."""
        self._gone_before = self._gone()
        if self._further:
            self._await_withdrawal()  # its pods are applied by the first node
        self.plane.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})
        until("the namespace has its service account", lambda: self.get("v1", "ServiceAccount", "default"))

    def end(self) -> None:
        """Remove what the test made: pods at once, everything else in the background."""
        try:
            self._remove_objects()
        finally:  # drivers live until their claims are unprepared
            for process in self.processes:
                process.terminate()  # all at once: the test waits for the slowest, not for one after the other
            for process in self.processes:
                process.close()

    def _remove_objects(self) -> None:
        if self._restarted:
            self.plane.wait_serving()
        self.heal()
        base = f"/api/v1/namespaces/{self.namespace}"
        self.plane.api.delete(base)  # first, so that no controller makes pods anew
        self.plane.api.delete(f"{base}/pods", grace_s=0)
        for path in self._cluster_objects:
            self.plane.api.delete(path)
        until("the devices of the test's pods are free", lambda: not self._held())

    def _held(self) -> bool:
        mine = f"{self.namespace}/"
        in_plugins = any(row.pod.startswith(mine) for row in self.plane.devices())
        return in_plugins or any(pod.startswith(mine) for row in self.plane.claim_devices() for pod in row.pods)

    # where it is

    @property
    def name(self) -> str:
        return self.environment["NODE_NAME"]

    @property
    def kubelet_dir(self) -> Path:
        return self.plane.layout.kubelet

    @property
    def environment(self) -> dict[str, str]:
        """Variables by which a program finds this node: KUBECONFIG, NODEPLANE_KUBELET_DIR, NAMESPACE and others."""
        return {**self.plane.environment, "NAMESPACE": self.namespace}

    # objects

    def apply(self, manifest: Manifest) -> list[Object]:
        """Apply objects, those without a namespace in that of the test; return them as the API has them."""
        return [self._apply(obj) for obj in objects_of(manifest)]

    def _apply(self, manifest: Mapping[str, Any]) -> Object:
        self._await_withdrawal()
        metadata, api = dict(manifest.get("metadata") or {}), self.plane.api
        if api.is_namespaced(str(manifest.get("apiVersion", "")), str(manifest.get("kind", ""))):
            metadata.setdefault("namespace", self.namespace)
        obj = {**manifest, "metadata": metadata}
        if "namespace" not in metadata:
            self._cluster_objects.append(api.path_of(obj))
        return api.apply(obj)

    def get(self, version: str, kind: str, name: str) -> Object:
        """Return an object of the test's namespace or of the cluster; {} if there is none."""
        metadata = {"name": name, "namespace": self.namespace}
        try:
            return self.plane.api.get(self.plane.api.path_of(_reference(version, kind, metadata)))
        except ApiError as error:
            if error.code == 404:
                return {}
            raise

    def objects(self, version: str, kind: str) -> list[Object]:
        path = self.plane.api.path_of(_reference(version, kind, {"namespace": self.namespace}))
        return list(self.plane.api.get(path.rstrip("/"))["items"])

    def delete(self, version: str, kind: str, name: str, grace_s: int | None = None) -> None:
        metadata = {"name": name, "namespace": self.namespace}
        self.plane.api.delete(self.plane.api.path_of(_reference(version, kind, metadata)), grace_s)

    def pod(self, name: str) -> Object:
        return self.get("v1", "Pod", name)

    def wait(self, pod: str | Mapping[str, Any]) -> PodWait:
        """Wait for a pod of the test's namespace: `node.wait("a").running()`."""
        name = pod if isinstance(pod, str) else str(pod["metadata"]["name"])

        return PodWait(name, partial(self.pod, name), partial(self._event_lines, name), partial(self._why, name))

    def until(self, text: str, holds: Callable[[], T], timeout: float = TIMEOUT_S) -> T:
        """Wait until `holds` returns something true, and return that; `text` says in the error what did not happen."""
        return until(text, holds, timeout, self._why_and_events)

    def _why(self, pod: str) -> str:
        text = self.plane.why(self.namespace, pod) if pod else ""
        return first_line_with(text, programs_sentence(self.processes))

    def _why_and_events(self) -> str:
        """Return why the newest pod of the test that waits does so, and the events."""
        return "\n".join(filter(None, [self._why(waiting_pod(self.objects("v1", "Pod"))), *self._event_lines()]))

    def _event_lines(self, about: str = "") -> list[str]:
        return folded_lines(self.events(about))

    def events(self, about: str = "") -> list[Object]:
        """Return the events of the namespace, or those about the object of this name, the oldest first."""
        matches = [event for event in self.objects("v1", "Event") if about in ("", event["involvedObject"].get("name"))]
        return sorted(matches, key=event_time)

    # devices

    @property
    def devices(self) -> list[DeviceRow]:
        """Devices of device plugins with health and holder, without those that earlier tests left behind."""
        old = self._left_behind()
        return [row for row in self.plane.devices() if row.resource not in old]

    @property
    def claim_devices(self) -> list[ClaimDeviceRow]:
        """Devices of DRA drivers in claims that pods use."""
        return self.plane.claim_devices()

    def _gone(self) -> dict[str, tuple[PluginView, ...]]:
        """Return the resources without a plugin, with the plugins that they had."""
        plugins = self._plugins().items()
        return {name: views for name, views in plugins if all(view.state == PLUGIN_GONE for view in views)}

    def _left_behind(self) -> set[str]:
        """Return the resources of earlier tests that no plugin of this one offers."""
        now = self._plugins()
        return {name for name, plugins in self._gone_before.items() if now.get(name) == plugins}

    def _await_withdrawal(self) -> None:
        """Wait until the API offers no device that an earlier test left behind, before a pod can be given one.

        Not when the test begins: the node changes its status twice a second at most, and a test that starts the same
        plugin need not wait for that.
        """
        if not self._withdrawn:
            self._withdrawn = True
            until("devices of earlier tests are no longer offered", lambda: not self._offered(self._left_behind()))

    def _offered(self, resources: Iterable[str]) -> bool:
        """Return True if the API offers any of these resources."""
        allocatable = self.get("v1", "Node", self.name).get("status", {}).get("allocatable", {})
        return any(allocatable.get(name, "0") != "0" for name in resources)

    def _plugins(self) -> dict[str, tuple[PluginView, ...]]:
        return {row.resource: row.plugins for row in self.plane.resources()}

    def held(self, pod: str) -> list[str]:
        """Return the ids of the devices that a pod of the test holds."""
        return [row.device for row in self.devices if row.pod == f"{self.namespace}/{pod}"]

    def wait_devices(self, resource: str, count: int, timeout: float = TIMEOUT_S) -> list[DeviceRow]:
        """Wait until `count` devices of a resource are Healthy, and the API offers as many."""

        def healthy() -> list[DeviceRow]:
            return [row for row in self.devices if (row.resource, row.health) == (resource, "Healthy")]

        def offered() -> str:
            status = self.get("v1", "Node", self.name).get("status", {})
            return str(status.get("allocatable", {}).get(resource, ""))

        def last() -> str:
            reasons = (devices_sentence(resource, self.devices, offered()), self.plane.why_plugin(resource))
            return ". ".join(filter(None, (*reasons, programs_sentence(self.processes))))

        text = f"{count} healthy devices of {resource}"
        over = partial(self._nobody_offers, resource) if count else lambda: ""
        until(text, lambda: len(healthy()) == count and offered() == str(count), timeout, last, over)
        return healthy()

    def _nobody_offers(self, resource: str) -> str:
        """Return the reason why no plugin of a resource can come any more; empty if one may.

        One may run in a pod, which does not request the resource itself.
        """
        if not self.processes or not all(process.has_ended for process in self.processes):
            return ""
        served = any(view.state != PLUGIN_GONE for view in self._plugins().get(resource, ()))
        if served or not all(resource in str(pod["spec"]) for pod in self.objects("v1", "Pod")):
            return ""
        return "every program of the test has ended"

    def break_device(self, device: str = "", resource: str = "") -> str:
        """Make a device unhealthy whatever its plugin says, and return its id.

        Without an id: the first one that a pod of the test holds, else the first healthy one. A device of a DRA driver
        is DRIVER/POOL/DEVICE.
        """
        chosen = ("", device) if device.count("/") > 1 else self._choose(device, resource)
        self._overridden.add(chosen)
        self.plane.override_health(ChaosDevice(resource=chosen[0], id=chosen[1], health=UNHEALTHY))
        return chosen[1]

    def _choose(self, device: str, resource: str) -> tuple[str, str]:
        rows = [row for row in self.devices if resource in ("", row.resource) and device in ("", row.device)]
        rows.sort(key=lambda row: (not row.pod.startswith(f"{self.namespace}/"), row.health != "Healthy"))
        if not rows:
            raise UsageError(
                f"no device {device or 'at all'} of {resource or 'any resource'}; is its plugin registered?"
            )
        return rows[0].resource, rows[0].device

    def heal(self, device: str = "") -> None:
        """Show a device, or every one that the test broke, as its plugin reports it."""
        for chosen in [overridden for overridden in self._overridden if device in ("", overridden[1])]:
            with contextlib.suppress(UsageError):  # its plugin may be gone
                self.plane.override_health(ChaosDevice(resource=chosen[0], id=chosen[1], health=CLEAR))
            self._overridden.discard(chosen)

    # what was said to plugins and drivers

    def calls(self, resource: str = "", *, show_secrets: bool = False) -> list[CallRecord]:
        """Return the calls of the test to and from the plugin of a resource or a DRA driver, the oldest first.

        The record starts anew with each restart of the kubelet. Values of environment variables, which may be
        credentials, are there only with `show_secrets`.
        """
        records = self.plane.calls(resource, show_secrets=show_secrets)
        return [call for call in records if call.began_ns >= self._begun_ns]

    def trace(self, pod: str) -> PodTrace:
        """Return the steps of a pod's life in every process, as `nodeplane trace` shows them."""
        return self.plane.trace(self.namespace, pod)

    def prepare(self, driver: str, claim: str) -> list[PreparedDevice]:
        """Call NodePrepareResources of a DRA driver, as kubelet does again when it has lost the answer.

        Raises PrepareFailed with the driver's reason, and UsageError for an unknown driver or claim.
        """
        resource_claim = self.get("resource.k8s.io/v1", "ResourceClaim", claim)
        registered = self.plane.drivers().get(driver)
        if not resource_claim or registered is None or not registered.endpoints:
            missing = f"driver {driver} is registered" if resource_claim else f"claim {claim} is in {self.namespace}"
            raise UsageError(f"no {missing}")
        claims = [{"namespace": self.namespace, "name": claim, "uid": resource_claim["metadata"]["uid"]}]
        return prepare(registered.endpoints[-1], registered.version, claims)

    # processes

    def run(self, *command: str, environment: Mapping[str, str] | None = None) -> Process:
        """Start a program with `environment` beside the variables of the node; the end of the test stops it."""
        variables = {**os.environ, **self.environment, **(environment or {})}
        process = Process(command, variables, self.plane.programs)
        self.processes.append(process)
        return process

    def plugin(self, resource: str, devices: int = 1, **flags: str | int) -> Process:
        """Start the simulated device plugin and wait for its devices; `flags` are those of `nodeplane plugin`."""
        words, uid = _flags(resource=resource, devices=devices, **flags), uuid4().hex[:8]
        process = self.run("nodeplane", "plugin", *words, environment={"POD_UID": uid})
        if "script" not in flags:
            self._started(process, f"{resource} is registered", lambda: self._serves(resource, uid))
            self.wait_devices(resource, devices)
        return process

    def driver(self, name: str, devices: int = 1, **flags: str | int) -> Process:
        """Start the simulated DRA driver and wait for its slices; `flags` are those of `nodeplane dra-driver`."""
        words, uid = _flags(driver=name, devices=devices, **flags), uuid4().hex[:8]
        process = self.run("nodeplane", "dra-driver", *words, environment={"POD_UID": uid})
        if "script" not in flags:
            self._started(process, f"{name} is registered", lambda: self._prepares(name, uid))
            self._started(process, f"{name} has published {devices} devices", lambda: self._published(name) >= devices)
        return process

    def _started(self, process: Process, text: str, holds: Callable[[], bool]) -> None:
        """Wait for a step of a process, as long as it runs."""
        until(text, holds, over=lambda: programs_sentence([process]))

    def _serves(self, resource: str, uid: str) -> bool:
        """Return True if the plugin that was given this uid of a pod serves; its socket is named after it."""
        views = self._plugins().get(resource, ())
        return any(view.state == PLUGIN_SERVES and view.socket.endswith(f"-{uid}.sock") for view in views)

    def _prepares(self, driver: str, uid: str) -> bool:
        """Return True if the driver that was given this uid of a pod is called; its socket is named after it."""
        newest = self._endpoints(driver)[-1:]
        return any(endpoint.endswith(f"/dra-{uid}.sock") for endpoint in newest)

    def _endpoints(self, driver: str) -> tuple[str, ...]:
        """Return the sockets of a driver, the newest last; none if it is not registered or has ended."""
        registered = self.plane.drivers().get(driver)
        return registered.endpoints if registered else ()

    def _published(self, driver: str) -> int:
        """Return the number of devices in the driver's slices of this node; slices of an earlier process may stay."""
        path = self.plane.api.path_of(_reference("resource.k8s.io/v1", "ResourceSlice", {}))
        slices = self.plane.api.get(
            path.rstrip("/"), {"fieldSelector": f"spec.nodeName={self.name},spec.driver={driver}"}
        )
        return sum(len(item["spec"].get("devices", ())) for item in slices["items"])

    # failures

    def kill(self, actor: str, number: int = SIGKILL) -> None:
        """Send a signal to an actor of the plane, such as `devices`; after SIGKILL, wait until it serves again."""
        self._restarted = True
        self.plane.kill(actor, number)

    def restart_kubelet(self) -> None:
        """Restart all that a kubelet is; its sockets are made anew, and containers go on."""
        self._restarted = True
        self.plane.restart_kubelet()


def _flags(**values: str | int) -> list[str]:
    return [f"--{name.replace('_', '-')}={value}" for name, value in values.items()]


def objects_of(manifest: Manifest) -> list[Mapping[str, Any]]:
    """Return the objects of a manifest; the items of a List each."""
    if isinstance(manifest, Path):
        manifest = manifest.read_text()
    if isinstance(manifest, str):
        documents = [document for document in yaml.safe_load_all(manifest) if document]
    else:
        documents = [manifest] if isinstance(manifest, Mapping) else list(manifest)
    return [
        item for document in documents for item in (document["items"] if document.get("kind") == "List" else [document])
    ]


def _reference(version: str, kind: str, metadata: Mapping[str, str]) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": metadata}
