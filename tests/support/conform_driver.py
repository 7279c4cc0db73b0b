"""A DRA driver, correct but for the bug that its first argument names; "none" is none of them.

Written as its users do: with gRPC's threads and the generated stubs, and without the code that judges it. Its pool has
two slices; its devices can be shared if its second argument says so.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from protocols.process.layout import layout
from protocols.wire import dra_v1_pb2 as v1
from protocols.wire import dra_v1beta1_pb2 as v1beta1
from protocols.wire import drahealth_v1_pb2 as health_v1
from protocols.wire import drahealth_v1alpha1_pb2 as health_v1alpha1
from protocols.wire import pluginregistration_v1_pb2 as registration
from supervisor.testing.api import Api, ApiError
from tests.support.stubs import dra_v1_pb2_grpc as v1_service
from tests.support.stubs import dra_v1beta1_pb2_grpc as v1beta1_service
from tests.support.stubs import drahealth_v1_pb2_grpc as health_v1_service
from tests.support.stubs import drahealth_v1alpha1_pb2_grpc as health_v1alpha1_service
from tests.support.stubs import pluginregistration_v1_pb2_grpc as registration_service

BUG = sys.argv[1]
SHARED = "shared" in sys.argv[2:]
CONDITIONS = "conditions" in sys.argv[2:]
NAME, COUNT = os.environ.get("DRIVER_NAME", "gpu.example.com"), 4
KUBELET = Path(os.environ["NODEPLANE_KUBELET_DIR"])
CDI = Path(os.environ["CDI_ROOT"])
NODE = os.environ["NODE_NAME"]
STATE, BROKEN = KUBELET / "state", KUBELET / "broken"
FIXED_NAME = BUG in ("keeps_its_socket", "shares_its_socket")
INSTANCE = "" if FIXED_NAME else f"-{os.getpid()}"
SOCKET = KUBELET / "plugins" / NAME / f"dra{INSTANCE}.sock"
REGISTRAR = KUBELET / "plugins_registry" / f"{'.' if BUG == 'hides_its_socket' else ''}{NAME}{INSTANCE}-reg.sock"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
MINE = f"spec.driver={NAME},spec.nodeName={NODE}"
POOL = NODE
TIMEOUT_S, POLL_S = 3, 0.1
CONDITION = f"{NAME}/attached"
ended, was_broken = threading.Event(), threading.Event()
prepared: dict[str, list[Any]] = {}
given: dict[str, str] = {}
"""Claims by device."""
apis = threading.local()


def api() -> Api:
    if not hasattr(apis, "api"):
        apis.api = Api(layout(os.environ["NODEPLANE_ROOT"]))
    return apis.api  # type: ignore[no-any-return]


# slices


def device(number: int) -> dict[str, Any]:
    stem = f"gpu-{os.getpid()}" if BUG == "names_devices_by_its_pid" else "gpu"
    found: dict[str, Any] = {"name": f"{stem}-{number}", "attributes": {"index": {"int": number}}}
    if SHARED:
        found |= {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "16Gi"}}}
    if CONDITIONS:
        found |= {"bindsToNode": True, "bindingConditions": [CONDITION], "bindingFailureConditions": [f"{NAME}/failed"]}
    return found


def specs(generation: int) -> dict[str, dict[str, Any]]:
    devices = [device(number) for number in range(COUNT)]
    if BUG == "lists_a_device_twice":
        devices[2]["name"] = devices[0]["name"]
    count = 3 if BUG == "counts_slices_wrongly" else 2
    node = "elsewhere" if BUG == "names_another_node" else NODE
    pool = {"name": POOL, "generation": generation, "resourceSliceCount": count}
    halves = (devices[:2], devices[2:])
    if BUG == "publishes_nothing":
        return {}
    return {
        f"{NODE}-{NAME}-{at}": {"driver": NAME, "nodeName": node, "pool": pool, "devices": half}
        for at, half in enumerate(halves)
    }


def publish() -> None:
    """Look every moment whether the slices are as they should be."""
    generation, first = 1, True
    while not ended.is_set():
        try:
            found = api().get(SLICES, {"fieldSelector": MINE})["items"]
            actual = {each["metadata"]["name"]: each for each in found}
            if BUG != "begins_at_generation_one":
                generation = max([generation, *(each["spec"]["pool"]["generation"] for each in found)])
            if first or not (BUG == "publishes_once" or is_published(actual, specs(generation))):
                generation += 0 if BUG == "begins_at_generation_one" or (first and not actual) else 1
                write(actual, specs(generation))
            first = False
        except (ApiError, OSError) as error:
            print(f"not published: {error}", flush=True)
        ended.wait(POLL_S)


def is_published(actual: dict[str, Any], desired: dict[str, Any]) -> bool:
    if BUG == "writes_without_end":
        return False
    mine = {name: each for name, each in actual.items() if BUG != "leaves_old_slices" or name in desired}
    return {name: subset(each["spec"], desired.get(name, {})) for name, each in mine.items()} == desired


def subset(found: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """Return a spec without the defaults of the API."""
    same = {key: value for key, value in found.items() if key in wanted}
    names = [each["name"] for each in found.get("devices") or ()]
    return (
        {**same, "devices": wanted.get("devices", [])}
        if names == [each["name"] for each in wanted.get("devices", [])]
        else found
    )


def write(actual: dict[str, Any], desired: dict[str, Any]) -> None:
    for name, spec in desired.items():
        body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}
        if name in actual:
            body["metadata"]["resourceVersion"] = actual[name]["metadata"]["resourceVersion"]
        api().ask("PUT" if name in actual else "POST", f"{SLICES}/{name}" if name in actual else SLICES, body)
    for name in actual.keys() - desired.keys() if BUG != "leaves_old_slices" else ():
        api().delete(f"{SLICES}/{name}")


# claims


class ClaimRejected(Exception):
    pass


def prepare(claim: Any) -> list[Any]:
    """Return the devices of a claim. Raises ClaimRejected."""
    if claim.uid in prepared and BUG == "prepares_once":
        raise ClaimRejected("it is prepared already")
    path = f"/apis/resource.k8s.io/v1/namespaces/{claim.namespace}/resourceclaims/{claim.name}"
    try:
        found = api().get(path)
    except ApiError as error:
        raise ClaimRejected(str(error)) from None
    if found["metadata"]["uid"] != claim.uid and BUG != "ignores_the_uid":
        raise ClaimRejected("it is another claim now")
    allocation = (found.get("status") or {}).get("allocation")
    pods = (found.get("status") or {}).get("reservedFor") or []
    if BUG == "rejects_shared_claims" and len(pods) > 1:
        raise ClaimRejected(f"it is reserved for {len(pods)} pods")
    owner = pods[0]["uid"] if BUG in ("reads_the_first_pod", "names_devices_by_the_pod") else claim.uid
    if not allocation and BUG == "invents_an_allocation":
        return []
    if not allocation:
        raise ClaimRejected("it is not allocated")
    results = [
        result for result in allocation["devices"]["results"] if result["driver"] == NAME or BUG == "takes_all_results"
    ]
    if allocation["devices"].get("config") and BUG == "reads_all_configurations":
        raise ClaimRejected("its configuration has an unknown kind")
    check_offered(results)
    hold(claim, results)
    devices = [answer(owner if BUG == "names_devices_by_the_pod" else claim.uid, result) for result in results]
    if BUG == "joins_cdi_ids":
        seen: list[str] = []
        for each in devices:
            seen += list(each.cdi_device_ids)
            each.cdi_device_ids[:] = seen
    write_cdi(claim.uid, devices)
    prepared[claim.uid] = devices
    return devices[:1] if BUG == "prepares_the_first_device" else devices


def check_offered(results: list[Any]) -> None:
    """Raise ClaimRejected for a device that the driver does not have."""
    known = {(POOL, device(number)["name"]) for number in range(COUNT)}
    for result in results:
        if result["driver"] == NAME and (result["pool"], result["device"]) not in known:
            raise ClaimRejected(f"there is no device {result['pool']}/{result['device']}")


def hold(claim: Any, results: list[Any]) -> None:
    if BUG == "leaves_locks":
        STATE.mkdir(exist_ok=True)
        try:
            (STATE / claim.uid).touch(exist_ok=False)
        except FileExistsError:
            raise ClaimRejected("it is locked") from None
        time.sleep(1)
        (STATE / claim.uid).unlink()
    for result in results if BUG in ("keeps_devices",) else ():
        if given.setdefault(result["device"], claim.uid) != claim.uid:
            raise ClaimRejected(f"{result['device']} belongs to {given[result['device']]}")


def answer(uid: str, result: dict[str, Any]) -> Any:
    share = result.get("shareID") or ""
    name = f"{uid}-{result['device']}" + (f"-{share[:8]}" if share else "")
    if BUG == "counts_preparations":
        name += f"-{time.monotonic_ns()}"
    if BUG == "forgets_shares":
        name = result["device"]
    device = v1.Device(
        request_names=[result["request"] if BUG == "names_subrequests" else result["request"].partition("/")[0]],
        pool_name="" if BUG == "names_no_pool" else result["pool"],
        device_name=device_of(result["device"]),
        cdi_device_ids=[name if BUG == "has_short_cdi_names" else f"{NAME}/device={name}"],
    )
    if share and BUG != "forgets_shares":
        device.share_id = share
    return device


def device_of(name: str) -> str:
    return "gpu-0" if BUG == "gives_the_first_device" else name


def cdi_file(uid: str) -> Path:
    return CDI / f"{NAME}-{uid}.json"


def write_cdi(uid: str, devices: list[Any]) -> None:
    names = [each.cdi_device_ids[-1].rpartition("=")[2] for each in devices]
    edits = {"env": ["GPU=1"]}
    spec = {
        "cdiVersion": "0.5.0",
        "kind": f"{NAME}/device",
        "devices": [{"name": name, "containerEdits": edits} for name in dict.fromkeys(names)],
    }
    if BUG == "writes_files_later":
        threading.Timer(1, lambda: replace(uid, spec)).start()
    elif BUG != "writes_no_files":
        replace(uid, spec)


def replace(uid: str, spec: dict[str, Any]) -> None:
    CDI.mkdir(exist_ok=True)
    temporary = cdi_file(uid).with_suffix(".tmp")
    temporary.write_text(json.dumps(spec)[: 50 if BUG == "writes_half_a_file" else None])
    temporary.rename(cdi_file(uid))


def unprepare(claim: Any) -> str:
    """Return an error."""
    if BUG in ("keeps_reserved_claims", "unprepares_for_a_pod_only"):
        pods = reserved(claim)
        if bool(pods) == (BUG == "keeps_reserved_claims"):
            return f"it is reserved for {len(pods)} pods"
    if BUG == "unprepares_what_it_knows" and claim.uid not in prepared:
        return "it is not prepared"
    if BUG == "asks_the_api_to_unprepare":
        try:
            prepare(claim)
        except ClaimRejected as error:
            return str(error)
    prepared.pop(claim.uid, None)
    if BUG != "leaves_cdi_files":
        cdi_file(claim.uid).unlink(missing_ok=True)
    return ""


def reserved(claim: Any) -> list[Any]:
    found = api().get(f"/apis/resource.k8s.io/v1/namespaces/{claim.namespace}/resourceclaims/{claim.name}")
    return list((found.get("status") or {}).get("reservedFor") or [])


def follow_pods() -> None:
    """Remove the file of a claim when a pod of its claim is gone."""
    counts: dict[str, int] = {}
    while not ended.wait(POLL_S):
        for claim in api().get("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims")["items"]:
            uid, pods = claim["metadata"]["uid"], (claim.get("status") or {}).get("reservedFor") or []
            if len(pods) < counts.get(uid, 0):
                cdi_file(uid).unlink(missing_ok=True)
            counts[uid] = len(pods)


# services


class Driver:
    """The calls of both versions; `pb` is the module of one."""

    pb: Any

    def NodePrepareResources(self, request: Any, context: grpc.ServicerContext) -> Any:
        reply = self.pb.NodePrepareResourcesResponse()
        claims = request.claims[:1] if BUG == "reads_the_first_claim" else request.claims
        self.claims = list(claims)
        if BUG == "shares_state_among_calls":
            time.sleep(POLL_S)
        for claim in self.claims if BUG == "shares_state_among_calls" else claims:
            try:
                devices = prepare(claim)
            except ClaimRejected as error:
                if BUG == "fails_the_call":
                    context.abort(grpc.StatusCode.INTERNAL, str(error))
                reply.claims[claim.uid].error = str(error)
                continue
            entry = reply.claims[claim.name if BUG == "answers_by_name" else claim.uid]
            for each in devices:
                entry.devices.append(self.pb.Device.FromString(self.known(each).SerializeToString()))
        return reply

    def known(self, device: Any) -> Any:
        if BUG == "has_two_minds" and self.pb is v1beta1:
            device.cdi_device_ids[:] = [f"{NAME}/device=old"]
        return device

    def NodeUnprepareResources(self, request: Any, context: grpc.ServicerContext) -> Any:
        reply = self.pb.NodeUnprepareResourcesResponse()
        for claim in request.claims:
            reply.claims[claim.uid].error = unprepare(claim)
        if BUG == "answers_no_unprepare":
            reply.claims.clear()
        return reply


class DriverV1(Driver, v1_service.DRAPluginServicer):
    pb = v1


class DriverV1beta1(Driver, v1beta1_service.DRAPluginServicer):
    pb = v1beta1


class Health:
    pb: Any

    def NodeWatchResources(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        over = threading.Event()
        context.add_callback(over.set)
        sent, at = None, 0.0
        while not over.is_set() and not ended.is_set():
            now = self.report()
            due = BUG != "reports_changes_only" and time.monotonic() - at > TIMEOUT_S / 3
            if (now != sent and not (BUG == "reports_no_recovery" and sent and not BROKEN.exists())) or due:
                yield now
                sent, at = now, time.monotonic()
            if BUG == "ends_its_stream":
                return
            over.wait(POLL_S)

    def report(self) -> Any:
        reply = self.pb.NodeWatchResourcesResponse()
        for number in range(1 if BUG == "leaves_out_devices" else 0, COUNT):
            each = reply.devices.add(health=2 if number == 0 and is_broken() else 1)
            each.health_check_timeout_seconds = TIMEOUT_S
            each.device.pool_name, each.device.device_name = POOL, device(number)["name"]
            each.message = "x" * 2000 if BUG == "sends_long_messages" else ""
        return reply


def is_broken() -> bool:
    if BROKEN.exists():
        was_broken.set()
    return BROKEN.exists() or (BUG == "reports_no_recovery" and was_broken.is_set())


class HealthV1(Health, health_v1_service.DRAResourceHealthServicer):
    pb = health_v1


class HealthV1alpha1(Health, health_v1alpha1_service.DRAResourceHealthServicer):
    pb = health_v1alpha1


class Registrar(registration_service.RegistrationServicer):
    asked = 0

    def GetInfo(self, request: Any, context: grpc.ServicerContext) -> registration.PluginInfo:
        self.asked += 1
        if BUG == "serves_one_kubelet" and self.asked > 1:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "it is registered already")
        versions = ["v1.DRAPlugin", "v1beta1.DRAPlugin", "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"]
        if BUG == "names_versions_only":
            versions = ["v1", "v1beta1"]
        if BUG == "prefers_the_old_version":
            versions[:2] = versions[1::-1]
        kind = "DevicePlugin" if BUG == "is_a_device_plugin" else "DRAPlugin"
        endpoint = SOCKET.name if BUG == "names_a_relative_endpoint" else str(SOCKET)
        return registration.PluginInfo(type=kind, name=NAME, endpoint=endpoint, supported_versions=versions)

    def NotifyRegistrationStatus(self, request: Any, context: grpc.ServicerContext) -> Any:
        print("registered" if request.plugin_registered else f"rejected: {request.error}", flush=True)
        if BUG == "rejects_its_registration":
            context.abort(grpc.StatusCode.INTERNAL, "no")
        if BUG == "removes_its_registrar" or (BUG == "gives_up_when_rejected" and not request.plugin_registered):
            threading.Timer(POLL_S, lambda: servers[-1].stop(0)).start()
        return registration.RegistrationStatusResponse()


def serve(path: Path, *add: Callable[[grpc.Server], None]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if BUG != "keeps_its_socket":
        path.unlink(missing_ok=True)
    elif path.exists():
        sys.exit(f"{path}: address already in use")
    server = grpc.server(ThreadPoolExecutor(16))
    for each in add:
        each(server)
    server.add_insecure_port(f"unix:{path}")
    server.start()
    servers.append(server)


servers: list[grpc.Server] = []


def add_old_versions(server: grpc.Server) -> None:
    if BUG != "serves_one_version":
        v1beta1_service.add_DRAPluginServicer_to_server(DriverV1beta1(), server)
    if BUG != "serves_one_health_version":
        health_v1alpha1_service.add_DRAResourceHealthServicer_to_server(HealthV1alpha1(), server)


def run() -> None:
    if BUG == "cleans_up_at_its_start":
        for path in CDI.glob(f"{NAME}-*.json"):
            path.unlink()
    serve(
        SOCKET,
        lambda server: v1_service.add_DRAPluginServicer_to_server(DriverV1(), server),
        add_old_versions,
        lambda server: health_v1_service.add_DRAResourceHealthServicer_to_server(HealthV1(), server),
    )
    serve(REGISTRAR, lambda server: registration_service.add_RegistrationServicer_to_server(Registrar(), server))
    publisher = threading.Thread(target=publish, daemon=True)
    publisher.start()
    if CONDITIONS and BUG != "attaches_nothing":
        threading.Thread(target=attach, daemon=True).start()
    if BUG == "cleans_up_after_a_pod":
        threading.Thread(target=follow_pods, daemon=True).start()
    ended.wait()
    publisher.join(5)
    if BUG == "leaves_its_socket":
        os._exit(0)
    paths = REGISTRAR.parent.glob("*.sock") if BUG == "removes_sockets_of_others" else [REGISTRAR]
    for path in paths:
        path.unlink(missing_ok=True)
    for server in servers:
        server.stop(0.2).wait()
    if BUG == "cleans_up_at_its_end":
        for path in CDI.glob(f"{NAME}-*.json"):
            path.unlink()
    SOCKET.unlink(missing_ok=True)
    os._exit(0)  # the library removes the paths of its servers, and so those of another instance


def attach() -> None:
    """Report the binding condition of each allocated device."""
    while not ended.wait(POLL_S):
        try:
            attach_all()
        except (ApiError, OSError) as error:
            print(f"not attached: {error}", flush=True)


def attach_all() -> None:
    claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    for claim in api().get(claims)["items"]:
        status = claim.get("status") or {}
        if status.get("allocation") and not status.get("devices"):
            devices = [attached(result) for result in status["allocation"]["devices"]["results"]]
            body = {**claim, "status": {**status, "devices": devices}}
            api().ask("PUT", f"{claims}/{claim['metadata']['name']}/status", body)


def attached(result: dict[str, Any]) -> dict[str, Any]:
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    condition = {"type": CONDITION, "status": "True", "reason": "Attached", "message": "", "lastTransitionTime": at}
    identity: dict[str, Any] = {
        name: result[name] for name in ("driver", "pool", "device", "shareID") if name in result
    }
    return {**identity, "conditions": [condition]}


def main() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN if BUG == "ignores_sigterm" else lambda *_: ended.set())
    run()


if __name__ == "__main__":
    main()
