"""A device plugin for example.com/gpu: it serves, registers, and registers again when the kubelet has restarted."""

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

import deviceplugin_v1beta1_pb2 as pb
import deviceplugin_v1beta1_pb2_grpc as api

RESOURCE = "example.com/gpu"
DEVICES = ("device-0", "device-1")
DIRECTORY = Path(os.environ.get("NODEPLANE_KUBELET_DIR", "/var/lib/kubelet"), "device-plugins")
KUBELET = DIRECTORY / "kubelet.sock"
SOCKET = DIRECTORY / f"{RESOURCE.replace('/', '-')[:40]}-{os.getpid()}.sock"  # two versions may run side by side
POLL_S, CALL_S = 0.2, 10.0
ended = threading.Event()


def broken() -> set[str]:
    """Return the ids of broken devices. Ask your hardware here; this example reads a file."""
    path = Path(os.environ.get("BROKEN_DEVICES", "broken-devices.txt"))
    return set(path.read_text().split()) if path.exists() else set()


def all_devices() -> pb.ListAndWatchResponse:
    """Return the whole list, always with the same ids for the same hardware."""
    bad = broken()
    found = [pb.Device(ID=id, health="Unhealthy" if id in bad else "Healthy") for id in DEVICES]
    return pb.ListAndWatchResponse(devices=found)


class Plugin(api.DevicePluginServicer):
    """The calls of the kubelet."""

    def GetDevicePluginOptions(self, request: pb.Empty, context: grpc.ServicerContext) -> pb.DevicePluginOptions:
        """Neither PreStartContainer nor GetPreferredAllocation. Called while Register still waits."""
        return pb.DevicePluginOptions()

    def ListAndWatch(self, request: pb.Empty, context: grpc.ServicerContext) -> Iterator[pb.ListAndWatchResponse]:
        """Send the whole list now and on each change. The end of this stream means that the plugin is gone."""
        sent = None
        while context.is_active() and not ended.is_set():
            found = all_devices()
            if found != sent:
                yield found
                sent = found
            ended.wait(POLL_S)

    def Allocate(self, request: pb.AllocateRequest, context: grpc.ServicerContext) -> pb.AllocateResponse:
        """Answer what each container needs to use its devices. No lasting effects: the pod may still be rejected."""
        reply = pb.AllocateResponse()
        for container in request.container_requests:
            if unknown := set(container.devices_ids) - set(DEVICES):
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"there is no device {min(unknown)}")
            reply.container_responses.add(envs={"DEVICES": ",".join(container.devices_ids)})
        return reply


def serve() -> grpc.Server:
    """Listen on a new socket: a kubelet that starts removes the sockets of all plugins."""
    SOCKET.unlink(missing_ok=True)
    server = grpc.server(ThreadPoolExecutor(16))
    api.add_DevicePluginServicer_to_server(Plugin(), server)
    server.add_insecure_port(f"unix:{SOCKET}")
    server.start()
    return server


def register() -> bool:
    """Return True if the kubelet has accepted the plugin."""
    request = pb.RegisterRequest(version="v1beta1", endpoint=SOCKET.name, resource_name=RESOURCE)
    try:
        with grpc.insecure_channel(f"unix:{KUBELET}") as channel:
            api.RegistrationStub(channel).Register(request, timeout=CALL_S)
    except grpc.RpcError as error:
        print(f"not registered: {error.details()}", flush=True)
        return False
    print(f"registered {RESOURCE} with {len(DEVICES)} devices", flush=True)
    return True


def kubelet() -> tuple[int, int] | None:
    """Identify kubelet.sock: after a restart it is another file."""
    try:
        found = KUBELET.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_ctime_ns


def main() -> None:
    """Serve until SIGTERM."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    server, registered = None, None
    while not ended.wait(POLL_S):
        now = kubelet()
        if now is None or now == registered:
            continue
        if server:
            server.stop(0).wait()
        server = serve()
        registered = now if register() else None
    if server:
        server.stop(0.5).wait()
    SOCKET.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
