"""A device plugin of one resource, correct but for the bug that its first argument names; "none" is none of them.

Written as its users do: with gRPC's threads and the generated stubs, and without the code that judges it.
"""

import itertools
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from tests.support.stubs import deviceplugin_v1beta1_pb2_grpc as service

BUG = sys.argv[1]
COUNT = int(sys.argv[2]) if len(sys.argv) > 2 else 3
DIRECTORY = Path(os.environ["NODEPLANE_KUBELET_DIR"]) / "device-plugins"
STATE = DIRECTORY.parent / "state"
KUBELET = DIRECTORY / "kubelet.sock"
CDI = Path(os.environ.get("CDI_ROOT") or DIRECTORY.parent / "cdi")
CDI_FILE = "sample.json"
FIXED_NAME = ("keeps_its_socket", "shares_its_socket")
NAME = "sample.sock" if BUG in FIXED_NAME else f"sample-{os.getpid()}.sock"
SOCKET = DIRECTORY / NAME
RESOURCE = {"has_no_domain": "gpu", "has_another_resource": "example.com/gpus"}.get(BUG, "example.com/gpu")
DROPPING_S, LOCKED_S = 8.0, 2.0
"""LOCKED_S: a busy machine breaks a call off late."""
POLL_S = 0.05
ended = threading.Event()
allocated: set[str] = set()
turns = itertools.count()


def ids() -> list[str]:
    stem = {"names_devices_by_its_pid": f"gpu-{os.getpid()}", "names_devices_otherwise": "card"}.get(BUG, "gpu")
    found = [f"{stem}-{number}" for number in range(1 if BUG == "lists_one_of_its_devices" else COUNT)]
    if BUG == "lists_a_device_twice":
        found[1] = found[0]
    if BUG == "lists_no_id":
        found[0] = ""
    if BUG == "has_long_ids":
        found[0] = "x" * 64
    return found


def is_broken(id: str) -> bool:
    return id.endswith("-0") and (DIRECTORY.parent / "broken").exists()


def device(number: int, id: str) -> pb.Device:
    node = -1 if BUG == "has_numa_node_minus_one" else number % 2
    nodes = [] if BUG == "has_an_empty_topology" else [pb.NUMANode(ID=node)]
    health = "healthy" if BUG == "writes_healthy_small" else "Healthy"
    if is_broken(id):
        health = "Unhealthy"
    return pb.Device(ID=id, health=health, topology=pb.TopologyInfo(nodes=nodes))


def whole_list() -> pb.ListAndWatchResponse:
    listed = [id for id in ids() if BUG != "leaves_out_what_is_broken" or not is_broken(id)]
    return pb.ListAndWatchResponse(devices=[device(number, id) for number, id in enumerate(listed)])


def cdi_spec() -> dict[str, Any]:
    """Return the CDI file of all devices."""
    devices = [{"name": id, "containerEdits": {"env": ["GPU=1"]}} for id in ids()]
    return {"cdiVersion": "0.5.0", "kind": "example.com/gpu", "devices": devices}


def declare() -> None:
    CDI.mkdir(exist_ok=True)
    temporary = CDI / f"sample-{os.getpid()}.tmp"
    temporary.write_text(json.dumps(cdi_spec()))
    temporary.rename(CDI / CDI_FILE)


def answer(wanted: Sequence[str]) -> pb.ContainerAllocateResponse:
    given = list(wanted[:1] if BUG == "gives_the_first_device_only" else wanted)
    if BUG == "chooses_devices_itself":
        given = [ids()[next(turns) % COUNT]]
    if BUG == "gives_the_next_device":
        given = [ids()[(ids().index(id) + 1) % COUNT] for id in given]
    found = pb.ContainerAllocateResponse(envs={"GPUS": ",".join(given)})
    if BUG == "joins_name_and_value":
        found.envs[f"GPUS={given[0]}"] = ""
    host_path = {"mounts_a_relative_path": "dev", "mounts_what_does_not_exist": "/no/such/path"}.get(BUG, "/dev")
    found.mounts.add(container_path="/gpu", host_path=host_path, read_only=True)
    permissions = {"has_no_permissions": "", "has_wrong_permissions": "rwx"}.get(BUG, "rw")
    node = "/dev/no-such-gpu" if BUG == "names_a_device_node_that_does_not_exist" else "/dev/null"
    found.devices.add(container_path="/dev/gpu", host_path=node, permissions=permissions)
    for id in given:
        found.cdi_devices.add(name=id if BUG == "has_short_cdi_names" else f"example.com/gpu={id}")
    if BUG == "answers_too_much" and COUNT >= 1000:
        found.annotations["all"] = "x" * (2 << 20)
    return found


class Plugin(service.DevicePluginServicer):
    def __init__(self) -> None:
        self._wanted: Sequence[str] = ()
        self._pre_started: set[str] = set()
        self._listed = threading.Event()

    def GetDevicePluginOptions(self, request: pb.Empty, context: grpc.ServicerContext) -> pb.DevicePluginOptions:
        has = BUG != "has_options_in_register_only"
        return pb.DevicePluginOptions(pre_start_required=has, get_preferred_allocation_available=has)

    def ListAndWatch(self, request: pb.Empty, context: grpc.ServicerContext) -> Iterator[pb.ListAndWatchResponse]:
        over = threading.Event()
        context.add_callback(over.set)
        if BUG == "lists_changes_only" or (BUG == "lists_once" and self._listed.is_set()):
            over.wait()
        self._listed.set()
        sent = whole_list()
        yield sent
        if BUG == "ends_its_list":
            return
        while not over.wait(POLL_S):
            now = whole_list()
            mended = BUG == "reports_no_recovery" and len({each.health for each in sent.devices}) > 1
            if BUG == "sends_lists_without_end" or (now != sent and not mended):
                yield now
                sent = now
                if BUG == "drops_changes_for_a_while":
                    over.wait(DROPPING_S)
                    sent = whole_list()

    def Allocate(self, request: pb.AllocateRequest, context: grpc.ServicerContext) -> pb.AllocateResponse:
        requests = list(
            request.container_requests[:1] if BUG == "reads_the_first_container" else request.container_requests
        )
        wanted = [id for each in requests for id in each.devices_ids]
        if BUG != "gives_unknown_devices" and not set(wanted) <= set(ids()):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "there is no such device")
        if BUG == "counts_what_is_allocated" and allocated & set(wanted):
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "the device is taken")
        allocated.update(wanted)
        if BUG == "leaves_locks":
            self._lock(wanted, context)
        if BUG == "shares_state_among_calls":
            self._wanted = wanted
            time.sleep(POLL_S)
            return pb.AllocateResponse(container_responses=[answer(self._wanted)])
        return pb.AllocateResponse(container_responses=[answer(each.devices_ids) for each in requests])

    def _lock(self, wanted: Sequence[str], context: grpc.ServicerContext) -> None:
        STATE.mkdir(exist_ok=True)
        try:
            for id in wanted:
                (STATE / id).touch(exist_ok=False)
        except FileExistsError:
            context.abort(grpc.StatusCode.UNAVAILABLE, "the device is locked")
        time.sleep(LOCKED_S)
        for id in wanted:
            (STATE / id).unlink()

    def GetPreferredAllocation(
        self, request: pb.PreferredAllocationRequest, context: grpc.ServicerContext
    ) -> pb.PreferredAllocationResponse:
        wanted = request.container_requests[0]
        included = [] if BUG == "forgets_what_must_be_included" else list(wanted.must_include_deviceIDs)
        available = ids() if BUG == "prefers_what_is_not_available" else wanted.available_deviceIDs
        choice = list(dict.fromkeys([*included, *available]))[: wanted.allocation_size]
        choice = choice[:-1] if BUG == "prefers_too_few" else choice
        return pb.PreferredAllocationResponse(container_responses=[{"deviceIDs": choice}])

    def PreStartContainer(
        self, request: pb.PreStartContainerRequest, context: grpc.ServicerContext
    ) -> pb.PreStartContainerResponse:
        if BUG == "starts_a_container_once" and self._pre_started & set(request.devices_ids):
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "it was started")
        self._pre_started |= set(request.devices_ids)
        return pb.PreStartContainerResponse()


def serve() -> grpc.Server:
    if BUG != "keeps_its_socket":
        SOCKET.unlink(missing_ok=True)
    elif SOCKET.exists():
        sys.exit(f"{SOCKET}: address already in use")
    server = grpc.server(ThreadPoolExecutor(1 if BUG == "has_one_thread" else 50))
    service.add_DevicePluginServicer_to_server(Plugin(), server)
    server.add_insecure_port(f"unix:{SOCKET}")
    server.start()
    return server


def register() -> None:
    request = pb.RegisterRequest(version="v1beta1", endpoint=NAME, resource_name=RESOURCE)
    request.options.pre_start_required = True
    if BUG == "has_another_version":
        request.version = "v1alpha"
    if BUG == "registers_a_path":
        request.endpoint = str(SOCKET)
    if BUG == "registers_a_missing_socket":
        request.endpoint = "other.sock"
    with grpc.insecure_channel(f"unix:{KUBELET}", options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        service.RegistrationStub(channel).Register(request, timeout=15)


def kubelet() -> tuple[int, int] | None:
    try:
        found = KUBELET.stat()
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns


def registered() -> grpc.Server | None:
    """Serve and register; return the server, or None for the next try."""
    server = serve() if BUG != "registers_before_it_serves" else None
    try:
        register()
    except grpc.RpcError as error:
        print(f"Register failed: {error.details()}", flush=True)
        if BUG != "ignores_a_failed_register":
            if server:
                server.stop(0).wait()
            return None
    print("registered", flush=True)
    return server or serve()


def serve_only() -> None:
    """Serve until the end, without a kubelet."""
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    server = serve()
    print("serves", flush=True)
    ended.wait()
    server.stop(0).wait()


def run() -> None:
    """Register now and whenever the kubelet starts anew."""
    known: object = ()
    server = None
    while not ended.wait(POLL_S):
        now = kubelet()
        if now is None and BUG in ("ends_without_kubelet", "gives_up_without_kubelet"):
            if BUG == "ends_without_kubelet":
                sys.exit(3)
            ended.wait()
        if BUG == "registers_all_the_time" and server and now:
            register()
        if now is None or now == known or (BUG == "registers_once" and known) or BUG == "never_registers":
            continue
        if server:
            server.stop(0).wait()
        server = registered()
        known = now if server else ()
    if server:
        server.stop(0.2).wait()
    paths = DIRECTORY.glob("sample-*.sock") if BUG == "removes_sockets_of_others" else [SOCKET]
    for path in paths:
        path.unlink(missing_ok=True)


def main() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN if BUG == "ignores_sigterm" else lambda *_: ended.set())
    declare()
    serve_only() if "served" in sys.argv[3:] else run()


if __name__ == "__main__":
    main()
