"""Garbage, wrong versions and too much of everything on every socket of a whole plane: nobody else is disturbed."""

import contextlib
import http.client
import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest

from protocols.wire import cri_pb2, etcd_pb2
from protocols.wire import deviceplugin_v1beta1_pb2 as device_wire
from protocols.wire import podresources_v1_pb2 as resources_wire
from tests.support.insults import GARBAGE, HTTP2, MIB, shouted, tcp_ports, unix_sockets, zmq_strangers
from tests.support.plane import Plane, until
from tests.support.plane_client import connect
from tests.support.stubs import call
from tests.support.stubs import deviceplugin_v1beta1_pb2_grpc as device_stubs
from tests.support.stubs import podresources_v1_pb2_grpc as resources_stubs
from tests.support.witnesses import Witnesses, container_of, lives, pod, with_devices


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """A plane with devices and a resident pod."""
    with Plane() as plane:
        with_devices(plane)
        plane.apply(pod("resident", devices=1))
        plane.pod_ready("resident")
        yield plane
        plane.settled()


@contextlib.contextmanager
def undisturbed(plane: Plane) -> Iterator[None]:
    """No actor and no container ended, every write and event arrived, and a pod can still come and go."""
    before = lives(plane), container_of(plane, "resident")
    with Witnesses(plane):
        yield
        plane.apply(pod("visitor", devices=1))
        plane.pod_ready("visitor")
        plane.kubectl("delete", "pod", "visitor")
    assert (lives(plane), container_of(plane, "resident")) == before


def test_garbage_and_half_messages_on_every_socket(plane: Plane) -> None:
    """Each is left open while the plane works on: a stranger who is silent blocks nobody."""
    before = memory(plane)
    addresses: list[Path | int] = [*unix_sockets(plane), *tcp_ports(plane)]
    assert {*ports(plane), store_port(plane)} <= set(addresses)
    with undisturbed(plane), contextlib.ExitStack() as held:
        for address in addresses:
            for data in GARBAGE.values():
                held.enter_context(shouted(address, data))
    grown = {name: size - before[name] for name, size in memory(plane).items() if size - before[name] > 30 * MIB}
    assert not grown, f"bytes that strangers cost: {grown}"


def test_foreign_zeromq_peers(plane: Plane) -> None:
    with undisturbed(plane), zmq_strangers(plane):
        until("garbage counted by every actor", lambda: min(garbage(plane).values(), default=0) >= 5)


def test_a_frame_beyond_the_limit_cuts_off_its_sender_alone(plane: Plane) -> None:
    with undisturbed(plane), zmq_strangers(plane, huge=bytes(65 * MIB)):
        pass


def test_many_unknown_clients_on_the_metrics_port(plane: Plane) -> None:
    _, metrics = ports(plane)
    with contextlib.ExitStack() as held:
        for _ in range(40):
            held.enter_context(shouted(metrics, b"GET /metr"))
        assert read_metrics(metrics)[0] == 200
    with shouted(metrics, b"GET /" + b"x" * 100_000) as sock:
        sock.settimeout(30)
        assert sock.recv(100).startswith(b"HTTP/1.1 400")
    with shouted(metrics, b"POST /metrics HTTP/1.1\r\n\r\n") as sock:
        sock.settimeout(30)
        assert sock.recv(100).startswith(b"HTTP/1.1 405")


def test_wrong_versions_are_reported(plane: Plane) -> None:
    with undisturbed(plane), channel(plane, "kubelet/device-plugins/kubelet.sock") as open_:
        register = device_stubs.RegistrationStub(open_).Register
        for version in ("v1alpha1", "v1beta9", ""):
            request = device_wire.RegisterRequest(version=version, endpoint="x.sock", resource_name="example.com/x")
            error = failure(partial(register, request, timeout=30))
            assert error.code() is not grpc.StatusCode.OK
            assert "version" in (error.details() or "")
    assert "example.com/x" not in plane.list("node")[0]["status"]["allocatable"]


def test_oversized_grpc_messages_are_refused(plane: Plane) -> None:
    heavy = "x" * (17 * MIB)
    with undisturbed(plane):
        with channel(plane, "run/store.sock") as open_:
            put = call(open_, etcd_pb2.DESCRIPTOR.services_by_name["KV"], "Put")
            large = etcd_pb2.PutRequest(key=b"/x", value=bytes(MIB * 3 // 2))
            error = failure(lambda: put(large, timeout=30))
            assert (error.code().name, error.details()) == ("INVALID_ARGUMENT", "etcdserver: request is too large")
            refused_for_size(lambda: put(etcd_pb2.PutRequest(key=b"/x", value=heavy.encode()), timeout=30))
        with channel(plane, "kubelet/device-plugins/kubelet.sock") as open_:
            register = device_stubs.RegistrationStub(open_).Register
            request = device_wire.RegisterRequest(version="v1beta1", endpoint=heavy, resource_name="example.com/x")
            refused_for_size(lambda: register(request, timeout=30))
        with channel(plane, "kubelet/pod-resources/kubelet.sock") as open_:
            get = resources_stubs.PodResourcesListerStub(open_).Get
            refused_for_size(lambda: get(resources_wire.GetPodResourcesRequest(pod_name=heavy), timeout=30))
        with channel(plane, "runtime/runtime.sock") as open_:
            version = call(open_, cri_pb2.DESCRIPTOR.services_by_name["RuntimeService"], "Version")
            refused_for_size(lambda: version(cri_pb2.VersionRequest(version=heavy), timeout=30))


def test_oversized_bodies_are_refused_by_status(plane: Plane) -> None:
    with undisturbed(plane):
        for size, expected in ((2 * MIB, 422), (4 * MIB, 413)):
            code, status = post(plane, configmap(f"large-{size}", "x" * size))
            assert (code, status["kind"], status["code"]) == (expected, "Status", expected), status
        large = json.dumps(pod("large", script="x" * (2 * MIB))).encode()
        code, status = post(plane, large, "pods")
        assert (code, status["reason"]) == (413, "RequestEntityTooLarge"), status
        assert post(plane, configmap("fits", "x" * MIB))[0] == 201
        assert post(plane, b"{" + b'"a":{' * 100_000)[0] == 400
        assert post(plane, b"\xff\xfe{}")[0] == 400
    plane.kubectl("delete", "configmap", "fits")


BAD_MANIFESTS = {
    "syntax": ("apiVersion: v1\nkind: [Pod\n", "yaml"),
    "tabs": ("apiVersion: v1\n\tkind: Pod\n", "yaml"),
    "no kind": ("metadata: {name: a}\n", "kind"),
    "unknown kind": ("apiVersion: v1\nkind: Pot\nmetadata: {name: a}\n", 'no matches for kind "Pot"'),
    "unknown version": ("apiVersion: v7\nkind: Pod\nmetadata: {name: a}\n", 'version "v7"'),
    "bad name": ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Not_A_Name}\n", "metadata.name"),
    "wrong type": ("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: 7}\n", "containers"),
    "no containers": ("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: []}\n", "spec.containers"),
    "wrong value": ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: [1]}\n", "data"),
    "bad quantity": (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: a,"
        " resources: {limits: {example.com/gpu: many}}}]}\n",
        "many",
    ),
}


@pytest.mark.parametrize("case", BAD_MANIFESTS)
def test_kubectl_reports_malformed_manifests(plane: Plane, case: str) -> None:
    text, says = BAD_MANIFESTS[case]
    with pytest.raises(AssertionError) as caught:
        plane.kubectl("apply", "-f", "-", stdin=text)
    assert says.lower() in str(caught.value).lower()
    assert "Internal" not in str(caught.value)
    assert plane.kubectl("get", "pods,configmaps", "a", "--ignore-not-found") == ""


def test_garbage_has_left_nothing_open(plane: Plane) -> None:
    """Every actor's descriptors are back to what they were: strangers that went away cost nothing."""
    before = descriptors(plane)
    with contextlib.ExitStack() as held:
        for address in unix_sockets(plane):
            held.enter_context(shouted(address, HTTP2))
    with zmq_strangers(plane):
        pass
    until("descriptors as before", lambda: all(n <= before[name] + 3 for name, n in descriptors(plane).items()))


def ports(plane: Plane) -> tuple[int, int]:
    answer = json.loads(plane.nodeplane("status", "-o", "json"))
    api, metrics = answer["endpoints"]["api"], answer["endpoints"]["metrics"]
    return int(api.rpartition(":")[2]), int(metrics.removesuffix("/metrics").rpartition(":")[2])


def store_port(plane: Plane) -> int:
    """The etcd API's, with TLS."""
    return int((plane.root / "run" / "store.addr").read_text().rpartition(":")[2])


def memory(plane: Plane) -> dict[str, int]:
    """Resident bytes of each actor."""
    pages = {name: Path(f"/proc/{actor['pid']}/statm").read_text().split()[1] for name, actor in plane.status().items()}
    return {name: int(count) * os.sysconf("SC_PAGE_SIZE") for name, count in pages.items()}


def read_metrics(port: int) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/metrics")
        with connection.getresponse() as answer:
            return answer.status, answer.read().decode()
    except (OSError, http.client.HTTPException) as error:
        return 0, str(error)
    finally:
        connection.close()


def garbage(plane: Plane) -> dict[str, float]:
    """Frames each actor dropped because they did not decode."""
    _, page = read_metrics(ports(plane)[1])
    lines = [line for line in page.splitlines() if 'bus_dropped_total{reason="garbage"' in line]
    return {line.split('actor="')[1].split('"')[0]: float(line.rpartition(" ")[2]) for line in lines}


@contextlib.contextmanager
def channel(plane: Plane, path: str) -> Iterator[grpc.Channel]:
    limits = [("grpc.max_send_message_length", -1), ("grpc.default_authority", "localhost")]
    with grpc.insecure_channel(f"unix:{plane.root}/{path}", limits) as open_:
        yield open_


def failure(call: Callable[[], object]) -> Any:
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return caught.value  # grpc's errors are calls, which its stubs do not say


def refused_for_size(call: Callable[[], object]) -> None:
    error = failure(call)
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED, error


def configmap(name: str, value: str) -> bytes:
    return json.dumps(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value}}
    ).encode()


def post(plane: Plane, body: bytes, kind: str = "configmaps") -> tuple[int, dict[str, object]]:
    connection = connect(plane.root, timeout=30)
    try:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            headers = {"Content-Type": "application/json"}
            connection.request("POST", f"/api/v1/namespaces/default/{kind}", body, headers)
        with connection.getresponse() as answer:
            return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def descriptors(plane: Plane) -> dict[str, int]:
    return {name: len(os.listdir(f"/proc/{actor['pid']}/fd")) for name, actor in plane.status().items()}
