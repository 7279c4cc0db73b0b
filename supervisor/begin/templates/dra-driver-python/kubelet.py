"""Register a DRA driver, publish its devices, and prepare claims by CDI files. You need not edit this."""

import json
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from kubernetes import client, config, watch

import dra_v1_pb2 as pb
import dra_v1_pb2_grpc as api
import pluginregistration_v1_pb2 as registration
import pluginregistration_v1_pb2_grpc as registration_api

NODE = os.environ.get("NODE_NAME", "")
REGISTRY = Path(os.environ.get("NODEPLANE_KUBELET_DIR", "/var/lib/kubelet"), "plugins_registry")
CDI = Path(os.environ.get("CDI_ROOT", "/var/run/cdi"))
INSTANCE = os.environ.get("POD_UID", str(os.getpid()))[:8]  # two versions may run at once, each as pid 1 of its pod
GROUP = ("resource.k8s.io", "v1")
SLICES = (*GROUP, "resourceslices")
Object = dict[str, Any]
CALL_S, RETRY_S, WATCH_S = 10.0, 1.0, 60
ended = threading.Event()


@dataclass
class Driver(api.DRAPluginServicer, registration_api.RegistrationServicer):
    """The calls of the kubelet, and the slice of the node's devices in the API."""

    name: str
    devices: Callable[[], list[Object]]
    prepare: Callable[[Object, str], Object]
    unprepare: Callable[[str], None]
    published: tuple[str, list[Object]] | None = None
    """The devices of the last write, and as the API stored them: it may put 1Gi for 1024Mi."""

    def GetInfo(self, request: registration.InfoRequest, context: grpc.ServicerContext) -> registration.PluginInfo:
        """Name the driver and its services. Without an endpoint they are on the socket of the registration."""
        return registration.PluginInfo(type="DRAPlugin", name=self.name, supported_versions=["v1.DRAPlugin"])

    def NotifyRegistrationStatus(
        self, request: registration.RegistrationStatus, context: grpc.ServicerContext
    ) -> registration.RegistrationStatusResponse:
        """Called with the result of the registration."""
        print(f"registered {self.name}" if request.plugin_registered else f"rejected: {request.error}", flush=True)
        return registration.RegistrationStatusResponse()

    def NodePrepareResources(
        self, request: pb.NodePrepareResourcesRequest, context: grpc.ServicerContext
    ) -> pb.NodePrepareResourcesResponse:
        """Called before the first container of a pod starts. A claim that fails does not affect the others."""
        reply = pb.NodePrepareResourcesResponse()
        for claim in request.claims:
            try:
                reply.claims[claim.uid].devices.extend(self.prepared(claim))
            except Exception as error:
                reply.claims[claim.uid].error = str(error) or repr(error)
        return reply

    def NodeUnprepareResources(
        self, request: pb.NodeUnprepareResourcesRequest, context: grpc.ServicerContext
    ) -> pb.NodeUnprepareResourcesResponse:
        """Called after the last pod of a claim has ended. A claim that was never prepared is a success."""
        reply = pb.NodeUnprepareResourcesResponse()
        for claim in request.claims:
            try:
                self.unprepare(claim.uid)
                (CDI / f"{self.name}-{claim.uid}.json").unlink(missing_ok=True)
                reply.claims[claim.uid].error = ""
            except Exception as error:
                reply.claims[claim.uid].error = str(error) or repr(error)
        return reply

    def prepared(self, claim: pb.Claim) -> list[pb.Device]:
        """Prepare the devices of this node that are allocated to a claim."""
        objects, path = client.CustomObjectsApi(), (claim.namespace, "resourceclaims", claim.name)
        resource_claim: Any = objects.get_namespaced_custom_object(*GROUP, *path, _request_timeout=CALL_S)
        if resource_claim["metadata"]["uid"] != claim.uid:
            raise LookupError(f"{claim.namespace}/{claim.name} is another claim now")
        results = resource_claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
        mine = [result for result in results if result["driver"] == self.name and result["pool"] == NODE]
        names = {allocated["device"] for allocated in mine}
        if not names or not names <= {device["name"] for device in self.devices()}:
            raise LookupError(f"{claim.namespace}/{claim.name} is allocated no devices that this driver has")
        self.write_cdi(claim.uid, {name: self.prepare(resource_claim, name) for name in sorted(names)})
        return [
            pb.Device(
                request_names=[allocated["request"].partition("/")[0]],
                pool_name=NODE,
                device_name=allocated["device"],
                cdi_device_ids=[f"{self.name}/device={claim.uid}-{allocated['device']}"],
            )
            for allocated in mine
        ]

    def write_cdi(self, uid: str, edits: dict[str, Object]) -> None:
        """Write the CDI file of a claim: a temporary file, renamed."""
        devices = [{"name": f"{uid}-{name}", "containerEdits": edit} for name, edit in edits.items()]
        CDI.mkdir(parents=True, exist_ok=True)
        temporary = CDI / f".{self.name}-{uid}.tmp"
        temporary.write_text(json.dumps({"cdiVersion": "0.5.0", "kind": f"{self.name}/device", "devices": devices}))
        temporary.rename(CDI / f"{self.name}-{uid}.json")

    def publish(self, objects: client.CustomObjectsApi, selector: str) -> None:
        """Bring the node's slices in the API into line, whoever has changed or deleted them."""
        slice_list: Any = objects.list_cluster_custom_object(*SLICES, field_selector=selector, _request_timeout=CALL_S)
        name, slices = f"{NODE}-{self.name}", {item["metadata"]["name"]: item for item in slice_list["items"]}
        newest = max((obj["spec"]["pool"]["generation"] for obj in slices.values()), default=0)
        current = slices.pop(name, None)
        for other in slices:  # what an earlier version of this driver published
            objects.delete_cluster_custom_object(*SLICES, other, _request_timeout=CALL_S)
        devices = self.devices()
        pool: Object = {"name": NODE, "generation": newest, "resourceSliceCount": 1}
        spec = (current or {}).get("spec", {})
        if spec.get("pool") == pool and self.published == (str(devices), spec.get("devices", [])):
            return
        pool["generation"] += 1
        spec = {"driver": self.name, "nodeName": NODE, "pool": pool, "devices": devices}
        metadata = {**(current or {}).get("metadata", {}), "name": name}
        wanted = {"apiVersion": "/".join(GROUP), "kind": "ResourceSlice", "metadata": metadata, "spec": spec}
        stored: Any = (
            objects.replace_cluster_custom_object(*SLICES, name, wanted, _request_timeout=CALL_S)
            if current
            else objects.create_cluster_custom_object(*SLICES, wanted, _request_timeout=CALL_S)
        )
        self.published = (str(devices), stored["spec"].get("devices", []))
        print(f"published {len(devices)} devices, generation {pool['generation']}", flush=True)

    def keep_published(self) -> None:
        """Publish now and after each change of the node's slices: the node deletes those of a driver that is gone."""
        objects, selector = client.CustomObjectsApi(), f"spec.driver={self.name},spec.nodeName={NODE}"
        while not ended.is_set():
            try:
                self.publish(objects, selector)
                changes = {"field_selector": selector, "timeout_seconds": WATCH_S}
                for _ in watch.Watch().stream(objects.list_cluster_custom_object, *SLICES, **changes):
                    self.publish(objects, selector)
            except Exception as error:
                print(f"not published: {error}", flush=True)
                ended.wait(RETRY_S)

    def run(self) -> None:
        """Serve until SIGTERM. The kubelet finds the socket, and finds it again when it has restarted."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: ended.set())
        config.load_config()  # of the pod, or KUBECONFIG
        REGISTRY.mkdir(parents=True, exist_ok=True)
        socket = REGISTRY / f"{self.name[:40]}-{INSTANCE}-reg.sock"
        socket.unlink(missing_ok=True)
        server = grpc.server(ThreadPoolExecutor(16))
        api.add_DRAPluginServicer_to_server(self, server)
        registration_api.add_RegistrationServicer_to_server(self, server)
        server.add_insecure_port(f"unix:{socket}")
        server.start()
        threading.Thread(target=self.keep_published, daemon=True).start()
        ended.wait()
        socket.unlink(missing_ok=True)  # no new call arrives
        server.stop(0.5).wait()
