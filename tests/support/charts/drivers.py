"""Programs of images that charts name: a DRA driver and a device plugin. Each runs as pid 1 of its container."""

import json
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc

from protocols.wire import deviceplugin_v1beta1_pb2 as plugin_pb
from protocols.wire import dra_v1_pb2 as dra_pb
from protocols.wire import pluginregistration_v1_pb2 as registration_pb
from tests.support.charts.in_cluster import DRIVERS, Api
from tests.support.stubs import deviceplugin_v1beta1_pb2_grpc as plugin_rpc
from tests.support.stubs import dra_v1_pb2_grpc as dra_rpc
from tests.support.stubs import pluginregistration_v1_pb2_grpc as registration_rpc

SERVING = b"\x08\x01"
"""HealthCheckResponse of grpc.health.v1."""


def until_sigterm() -> None:
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    over.wait()


def serve_pages(port: int, pages: dict[str, str]) -> None:
    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = pages.get(self.path)
            self.send_response(404 if text is None else 200)
            self.end_headers()
            self.wfile.write((text or "").encode())

        def log_message(self, format: str, *args: Any) -> None:
            """Probes come every second."""

    server = ThreadingHTTPServer(("", port), Pages)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def serve_health(port: int) -> None:
    """gRPC health, for a livenessProbe."""
    check: Any = grpc.unary_unary_rpc_method_handler(lambda request, context: SERVING)
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": check}),))
    server.add_insecure_port(f"0.0.0.0:{port}")
    server.start()


# the DRA driver


class Driver(dra_rpc.DRAPluginServicer, registration_rpc.RegistrationServicer):
    def __init__(self, api: Api) -> None:
        self._api = api
        self.name, self.node = os.environ["DRIVER_NAME"], os.environ["NODE_NAME"]
        self._cdi = Path(os.environ["CDI_ROOT"])
        self.folder = Path(os.environ["KUBELET_PLUGINS_DIRECTORY_PATH"]) / self.name
        self.socket = self.folder / f"dra-{os.environ['POD_UID']}.sock"

    def publish(self) -> None:
        uid = self._api.call("GET", f"/api/v1/nodes/{self.node}")["metadata"]["uid"]
        owner = {"apiVersion": "v1", "kind": "Node", "name": self.node, "uid": uid}
        pool = {"name": self.node, "generation": 1, "resourceSliceCount": 1}
        devices = [
            {"name": f"gpu-{at}", "attributes": {"index": {"int": at}}, "capacity": {"memory": {"value": "80Gi"}}}
            for at in range(int(os.environ["NUM_DEVICES"]))
        ]
        spec = {"driver": self.name, "nodeName": self.node, "pool": pool, "devices": devices}
        metadata = {"name": f"{self.node}-{self.name}", "ownerReferences": [owner]}
        kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice"}
        self._api.apply(f"{DRIVERS}/resourceslices", {**kind, "metadata": metadata, "spec": spec})

    def GetInfo(self, request: Any, context: Any) -> Any:
        return registration_pb.PluginInfo(
            type="DRAPlugin", name=self.name, endpoint=str(self.socket), supported_versions=["v1.DRAPlugin"]
        )

    def NotifyRegistrationStatus(self, request: Any, context: Any) -> Any:
        print("registered" if request.plugin_registered else f"not registered: {request.error}", flush=True)
        return registration_pb.RegistrationStatusResponse()

    def NodePrepareResources(self, request: Any, context: Any) -> Any:
        answer = dra_pb.NodePrepareResourcesResponse()
        for claim in request.claims:
            answer.claims[claim.uid].CopyFrom(self._prepare(claim))
        return answer

    def _prepare(self, claim: Any) -> Any:
        found = self._api.call("GET", f"{DRIVERS}/namespaces/{claim.namespace}/resourceclaims/{claim.name}")
        results = [
            result for result in found["status"]["allocation"]["devices"]["results"] if result["driver"] == self.name
        ]
        made = [
            {
                "name": result["device"],
                "containerEdits": {"env": [f"GPU_DEVICE_{result['device'][4:]}={result['device']}"]},
            }
            for result in results
        ]
        spec = {"cdiVersion": "0.5.0", "kind": f"k8s.{self.name}/claim-{claim.uid}", "devices": made}
        self._file(claim.uid).write_text(json.dumps(spec))
        return dra_pb.NodePrepareResourceResponse(
            devices=[
                dra_pb.Device(
                    request_names=[result["request"]],
                    pool_name=result["pool"],
                    device_name=result["device"],
                    cdi_device_ids=[f"{spec['kind']}={result['device']}"],
                )
                for result in results
            ]
        )

    def NodeUnprepareResources(self, request: Any, context: Any) -> Any:
        answer = dra_pb.NodeUnprepareResourcesResponse()
        for claim in request.claims:
            self._file(claim.uid).unlink(missing_ok=True)
            answer.claims[claim.uid].SetInParent()
        return answer

    def _file(self, uid: str) -> Path:
        return self._cdi / f"k8s.{self.name}-claim-{uid}.json"


def dra_driver() -> None:
    driver = Driver(Api())
    driver.publish()
    if port := os.environ.get("HEALTHCHECK_PORT"):
        serve_health(int(port))
    if port := os.environ.get("METRICS_PORT"):
        serve_pages(int(port), {"/metrics": "up 1\n"})
    driver.folder.mkdir(mode=0o750, exist_ok=True)
    registrar = Path(os.environ["KUBELET_REGISTRAR_DIRECTORY_PATH"]) / f"{driver.name}-{os.environ['POD_UID']}-reg.sock"
    servers = []
    for path, add in (
        (driver.socket, dra_rpc.add_DRAPluginServicer_to_server),
        (registrar, registration_rpc.add_RegistrationServicer_to_server),
    ):
        path.unlink(missing_ok=True)
        server = grpc.server(ThreadPoolExecutor(4))
        add(driver, server)
        server.add_insecure_port(f"unix:{path}")
        server.start()
        servers.append(server)
    until_sigterm()
    for server in servers:
        server.stop(1).wait()


# the device plugin

PLUGINS = Path("/var/lib/kubelet/device-plugins")
GPUS = ("tegra",)
"""Of a board without NVML there is one GPU, called tegra."""


class Plugin(plugin_rpc.DevicePluginServicer):
    def __init__(self) -> None:
        self.over = threading.Event()

    def GetDevicePluginOptions(self, request: Any, context: Any) -> Any:
        return plugin_pb.DevicePluginOptions()

    def ListAndWatch(self, request: Any, context: Any) -> Any:
        devices = [plugin_pb.Device(ID=name, health="Healthy") for name in GPUS]
        yield plugin_pb.ListAndWatchResponse(devices=devices)
        self.over.wait()

    def Allocate(self, request: Any, context: Any) -> Any:
        made = [
            plugin_pb.ContainerAllocateResponse(envs={"NVIDIA_VISIBLE_DEVICES": ",".join(each.devices_ids)})
            for each in request.container_requests
        ]
        return plugin_pb.AllocateResponse(container_responses=made)


def device_plugin() -> None:
    plugin, path = Plugin(), PLUGINS / "nvidia-gpu.sock"
    path.unlink(missing_ok=True)
    server = grpc.server(ThreadPoolExecutor(4))
    plugin_rpc.add_DevicePluginServicer_to_server(plugin, server)
    server.add_insecure_port(f"unix:{path}")
    server.start()
    with grpc.insecure_channel(f"unix:{PLUGINS / 'kubelet.sock'}") as channel:
        request = plugin_pb.RegisterRequest(version="v1beta1", endpoint=path.name, resource_name="nvidia.com/gpu")
        plugin_rpc.RegistrationStub(channel).Register(request, timeout=10)
    print("Registered device plugin for 'nvidia.com/gpu' with Kubelet", flush=True)
    until_sigterm()
    plugin.over.set()
    server.stop(1).wait()
