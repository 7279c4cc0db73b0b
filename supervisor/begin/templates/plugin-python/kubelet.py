"""Serve a device plugin, register it, and register it again after a restart of the kubelet. You need not edit this."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import grpc

import deviceplugin_v1beta1_pb2 as pb
import deviceplugin_v1beta1_pb2_grpc as api

DIRECTORY = Path(os.environ.get("NODEPLANE_KUBELET_DIR", "/var/lib/kubelet"), "device-plugins")
INSTANCE = os.environ.get("POD_UID", str(os.getpid()))[:8]  # two versions may run at once, each as pid 1 of its pod
POLL_S, RETRY_S, CALL_S = 0.2, 1.0, 10.0
ended = threading.Event()


@dataclass
class Plugin(api.DevicePluginServicer):
    """The calls of the kubelet."""

    resource: str
    devices: Callable[[], list[pb.Device]]
    allocate: Callable[[Sequence[str]], pb.ContainerAllocateResponse]

    def GetDevicePluginOptions(self, request: pb.Empty, context: grpc.ServicerContext) -> pb.DevicePluginOptions:
        """Neither PreStartContainer nor GetPreferredAllocation. Called while Register still waits."""
        return pb.DevicePluginOptions()

    def ListAndWatch(self, request: pb.Empty, context: grpc.ServicerContext) -> Iterator[pb.ListAndWatchResponse]:
        """Send the whole list now and on each change. The end of this stream means that the plugin is gone."""
        sent = None
        while context.is_active() and not ended.is_set():
            try:
                response = pb.ListAndWatchResponse(devices=self.devices())
            except Exception as error:  # the kubelet keeps what was sent
                print(f"devices not read: {error!r}", flush=True)
                ended.wait(RETRY_S)
                continue
            if response != sent:
                yield response
                sent = response
            ended.wait(POLL_S)

    def Allocate(self, request: pb.AllocateRequest, context: grpc.ServicerContext) -> pb.AllocateResponse:
        """Answer for each container. A device that does not exist fails the call, and so the pod."""
        asked = [container.devices_ids for container in request.container_requests]
        if unknown := {id for ids in asked for id in ids} - {device.ID for device in self.devices()}:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"there is no device {min(unknown)}")
        return pb.AllocateResponse(container_responses=[self.allocate(ids) for ids in asked])

    def serve(self, socket: Path) -> grpc.Server:
        """Listen anew: a kubelet that starts removes the sockets of all plugins."""
        socket.unlink(missing_ok=True)
        server = grpc.server(ThreadPoolExecutor(16))
        api.add_DevicePluginServicer_to_server(self, server)
        server.add_insecure_port(f"unix:{socket}")
        server.start()
        return server

    def register(self, endpoint: str) -> None:
        request = pb.RegisterRequest(version="v1beta1", endpoint=endpoint, resource_name=self.resource)
        with grpc.insecure_channel(f"unix:{DIRECTORY}/kubelet.sock") as channel:
            api.RegistrationStub(channel).Register(request, timeout=CALL_S)
        print(f"registered {self.resource}", flush=True)

    def run(self) -> None:
        """Serve until SIGTERM, and register with each new kubelet.sock: the kubelet has restarted."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: ended.set())
        socket = DIRECTORY / f"{self.resource.replace('/', '-')[:40]}-{INSTANCE}.sock"
        server, registered = grpc.server(ThreadPoolExecutor()), (0, 0)
        while not ended.wait(POLL_S):
            try:
                stat = (DIRECTORY / "kubelet.sock").stat()
                if (now := (stat.st_ino, stat.st_ctime_ns)) != registered:
                    server.stop(0).wait()
                    server = self.serve(socket)
                    self.register(socket.name)
                    registered = now
            except FileNotFoundError:
                continue
            except grpc.RpcError as error:
                print(f"not registered: {error.details()}", flush=True)
        server.stop(0.5).wait()
        socket.unlink(missing_ok=True)
