"""A DRA driver for gpu.example.com: it publishes the node's devices and prepares those of claims by CDI files."""

import json
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from kubernetes import client, config, watch
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

import dra_v1_pb2 as pb
import dra_v1_pb2_grpc as api
import pluginregistration_v1_pb2 as registration
import pluginregistration_v1_pb2_grpc as registration_api

DRIVER = "gpu.example.com"
DEVICES = ("device-0", "device-1")
NODE = os.environ.get("NODE_NAME", "")
KUBELET = Path(os.environ.get("NODEPLANE_KUBELET_DIR", "/var/lib/kubelet"))
CDI = Path(os.environ.get("CDI_ROOT", "/var/run/cdi"))
SOCKET = KUBELET / "plugins" / DRIVER / "dra.sock"
REGISTRAR = KUBELET / "plugins_registry" / f"{DRIVER}-reg.sock"
GROUP = ("resource.k8s.io", "v1")
MINE = f"spec.driver={DRIVER},spec.nodeName={NODE}"
CALL_S, RETRY_S = 10.0, 1.0
ended = threading.Event()


def spec(generation: int) -> dict[str, Any]:
    """Return the spec of the ResourceSlice: the devices of the node, as the scheduler sees them."""
    pool = {"name": NODE, "generation": generation, "resourceSliceCount": 1}
    devices = [{"name": name, "attributes": {"index": {"int": at}}} for at, name in enumerate(DEVICES)]
    return {"driver": DRIVER, "nodeName": NODE, "pool": pool, "devices": devices}


def publish(objects: client.CustomObjectsApi) -> None:
    """Bring the node's slices in the API into line, whoever has changed or deleted them."""
    found: Any = objects.list_cluster_custom_object(
        *GROUP, "resourceslices", field_selector=MINE, _request_timeout=CALL_S
    )
    slices = {each["metadata"]["name"]: each for each in found["items"]}
    newest = max((each["spec"]["pool"]["generation"] for each in slices.values()), default=0)
    current = slices.pop(f"{NODE}-{DRIVER}", None)
    for name in slices:  # what an earlier version of this driver published
        objects.delete_cluster_custom_object(*GROUP, "resourceslices", name, _request_timeout=CALL_S)
    if current and current["spec"] == spec(newest):
        return
    written: dict[str, Any] = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "spec": spec(newest + 1)}
    written["metadata"] = {"name": f"{NODE}-{DRIVER}"}
    if current:
        written["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"]
        objects.replace_cluster_custom_object(
            *GROUP, "resourceslices", f"{NODE}-{DRIVER}", written, _request_timeout=CALL_S
        )
    else:
        objects.create_cluster_custom_object(*GROUP, "resourceslices", written, _request_timeout=CALL_S)
    print(f"published {len(DEVICES)} devices", flush=True)


def keep_published() -> None:
    """Publish now and after each change of the node's slices: the node deletes those of a driver that is gone."""
    objects = client.CustomObjectsApi()
    while not ended.is_set():
        try:
            publish(objects)
            following = watch.Watch().stream(
                objects.list_cluster_custom_object, *GROUP, "resourceslices", field_selector=MINE, timeout_seconds=60
            )
            for _ in following:
                publish(objects)
        except (ApiException, HTTPError) as error:
            print(f"not published: {error}", flush=True)
            ended.wait(RETRY_S)


def cdi_name(uid: str, device: str) -> str:
    return f"{uid}-{device}"


def write_cdi(uid: str, devices: list[str]) -> None:
    """Write what the runtime changes in a container; here a variable, for real devices deviceNodes and mounts."""
    edits = [
        {"name": cdi_name(uid, device), "containerEdits": {"env": [f"{device.upper().replace('-', '_')}={uid}"]}}
        for device in devices
    ]
    path = CDI / f"{DRIVER}-{uid}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(json.dumps({"cdiVersion": "0.5.0", "kind": f"{DRIVER}/device", "devices": edits}))
    temporary.rename(path)


def prepare(claim: pb.Claim) -> list[pb.Device]:
    """Return the devices of a claim. The same claim may be asked for again: the answer is the same."""
    objects = client.CustomObjectsApi()
    asked = (claim.namespace, "resourceclaims", claim.name)
    found: Any = objects.get_namespaced_custom_object(*GROUP, *asked, _request_timeout=CALL_S)
    if found["metadata"]["uid"] != claim.uid:
        raise ValueError(f"{claim.namespace}/{claim.name} is another claim now")
    results = found.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
    mine = [each for each in results if each["driver"] == DRIVER and each["pool"] == NODE]
    if not mine or not {each["device"] for each in mine} <= set(DEVICES):
        raise ValueError(f"{claim.namespace}/{claim.name} is allocated no devices that this driver has")
    write_cdi(claim.uid, sorted({each["device"] for each in mine}))
    return [
        pb.Device(
            request_names=[each["request"].partition("/")[0]],
            pool_name=each["pool"],
            device_name=each["device"],
            cdi_device_ids=[f"{DRIVER}/device={cdi_name(claim.uid, each['device'])}"],
        )
        for each in mine
    ]


class Driver(api.DRAPluginServicer):
    """The calls of the kubelet for pods with claims."""

    def NodePrepareResources(
        self, request: pb.NodePrepareResourcesRequest, context: grpc.ServicerContext
    ) -> pb.NodePrepareResourcesResponse:
        """Called before the first container of a pod starts. A claim that fails does not affect the others."""
        reply = pb.NodePrepareResourcesResponse()
        for claim in request.claims:
            try:
                reply.claims[claim.uid].devices.extend(prepare(claim))
            except (ApiException, HTTPError, OSError, ValueError) as error:
                reply.claims[claim.uid].error = str(error)
        return reply

    def NodeUnprepareResources(
        self, request: pb.NodeUnprepareResourcesRequest, context: grpc.ServicerContext
    ) -> pb.NodeUnprepareResourcesResponse:
        """Called after the last pod of a claim has ended. A claim that was never prepared is a success."""
        reply = pb.NodeUnprepareResourcesResponse()
        for claim in request.claims:
            (CDI / f"{DRIVER}-{claim.uid}.json").unlink(missing_ok=True)
            reply.claims[claim.uid].error = ""
        return reply


class Registrar(registration_api.RegistrationServicer):
    """The registration service: the kubelet calls it on a socket in plugins_registry/."""

    def GetInfo(self, request: registration.InfoRequest, context: grpc.ServicerContext) -> registration.PluginInfo:
        """Name the driver, its socket and the services on it."""
        info = {"type": "DRAPlugin", "name": DRIVER, "endpoint": str(SOCKET)}
        return registration.PluginInfo(**info, supported_versions=["v1.DRAPlugin"])

    def NotifyRegistrationStatus(
        self, request: registration.RegistrationStatus, context: grpc.ServicerContext
    ) -> registration.RegistrationStatusResponse:
        """Called with the result."""
        print(f"registered {DRIVER}" if request.plugin_registered else f"not registered: {request.error}", flush=True)
        return registration.RegistrationStatusResponse()


def serve(path: Path, register: Any, servicer: object) -> grpc.Server:
    """Listen on a socket; one that an earlier process left is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    server = grpc.server(ThreadPoolExecutor(16))
    register(servicer, server)
    server.add_insecure_port(f"unix:{path}")
    server.start()
    return server


def main() -> None:
    """Serve until SIGTERM. The service first: the kubelet connects to it once it has found the other socket."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    config.load_config()  # of the pod, or KUBECONFIG
    servers = [serve(SOCKET, api.add_DRAPluginServicer_to_server, Driver())]
    servers.append(serve(REGISTRAR, registration_api.add_RegistrationServicer_to_server, Registrar()))
    threading.Thread(target=keep_published, daemon=True).start()
    ended.wait()
    for path in (REGISTRAR, SOCKET):  # no new call arrives
        path.unlink(missing_ok=True)
    for server in servers:
        server.stop(0.5).wait()


if __name__ == "__main__":
    main()
