"""What a local process, and a user with few rights, can do at the listening sockets of a running plane."""

import asyncio
import contextlib
import http.client
import ipaddress
import json
import os
import re
import socket
import ssl
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from protocols.wire import etcd_pb2 as pb
from tests.support.plane import BIN, REPO, Plane, until
from tests.support.ports import free_port
from tests.support.rights import ETCD_CLIENT, PAIRS, Caller, rights_table, rules_table

SECURITY = REPO / "docs" / "explanation" / "security.md"
HEALTHZ_PORT = free_port()
USERS = ("admin", "scheduler", "controllers", "podworker", "health", "apiserver-kubelet-client", "apiserver")
"""Pairs of the cluster's CA."""
MALLORY = "mallory"
LISTEN = "0A"


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """A plane with a pod that has a secret."""
    with Plane("--node-name", "n1", "--healthz-port", str(HEALTHZ_PORT)) as running:
        secret = {"name": "S", "valueFrom": {"secretKeyRef": {"name": "treasure", "key": "a"}}}
        container = {"name": "a", "image": "busybox:1", "command": ["sleep", "1000"], "env": [secret]}
        spec = {"terminationGracePeriodSeconds": 0, "containers": [container]}
        running.apply(
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "treasure"}, "stringData": {"a": "b"}}
        )
        running.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "plain"}, "spec": spec})
        elsewhere = {**spec, "schedulerName": "nobody"}
        running.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "elsewhere"}, "spec": elsewhere})
        running.kubectl("create", "role", "forwarder", "--verb=create,get", "--resource=pods/portforward,pods")
        running.kubectl("create", "rolebinding", "forwarder", "--role=forwarder", f"--user={MALLORY}")
        running.pod_ready("plain")
        until("exec works", lambda: running.kubectl("exec", "plain", "--", "echo", "x", check=False) == "x\n")
        yield running


def port_in(plane: Plane, file: str) -> int:
    return int((plane.root / "run" / file).read_text().rpartition(":")[2])


def api_port(plane: Plane) -> int:
    return int(json.loads((plane.root / "run" / "settings.json").read_text())["port"])


def pair(plane: Plane, name: str) -> tuple[Path, Path]:
    return plane.root / "pki" / f"{name}.crt", plane.root / "pki" / f"{name}.key"


# the store


def secrets_at(plane: Plane, port: int, user: str) -> int:
    """The number of secrets that the store counts for who comes with a certificate of `user`; -1 when refused."""
    cert, key = pair(plane, user)
    roots = b"".join(path.read_bytes() for path in (plane.root / "pki").rglob("ca.crt"))
    proof = grpc.ssl_channel_credentials(roots, key.read_bytes(), cert.read_bytes())
    request = pb.RangeRequest(key=b"/registry/secrets/", range_end=b"/registry/secrets0", count_only=True)

    async def ask() -> int:
        async with grpc.aio.secure_channel(f"127.0.0.1:{port}", proof) as channel:
            call = channel.unary_unary(
                "/etcdserverpb.KV/Range", pb.RangeRequest.SerializeToString, pb.RangeResponse.FromString
            )
            return int((await call(request, timeout=20)).count)

    try:
        return asyncio.run(ask())
    except grpc.aio.AioRpcError:
        return -1


@pytest.mark.parametrize("user", USERS)
def test_store_port_with_a_certificate_of_the_clusters_ca_is_refused(plane: Plane, user: str) -> None:
    assert secrets_at(plane, port_in(plane, "store.addr"), user) == -1


def test_store_port_with_the_api_servers_certificate_serves(plane: Plane) -> None:
    assert secrets_at(plane, port_in(plane, "store.addr"), "apiserver-etcd-client") >= 1


def test_port_forward_with_no_other_right_does_not_reach_the_store(plane: Plane) -> None:
    port = port_in(plane, "store.addr")
    with forwarded(plane, port) as (local, said):
        assert secrets_at(plane, local, "scheduler") == -1
        until("the reason", lambda: f"port {port} is the plane's own" in said.read_text())


def test_port_forward_to_the_node_endpoint_and_the_api_is_refused(plane: Plane) -> None:
    api = api_port(plane)
    for port in (port_in(plane, "node-endpoint.port"), api):
        with forwarded(plane, port) as (local, said):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", local), timeout=30) as raw:
                raw.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
                assert raw.recv(100) == b""
            until("the reason", lambda port=port, said=said: f"port {port} is the plane's own" in said.read_text())  # type: ignore[misc]


@contextlib.contextmanager
def forwarded(plane: Plane, port: int) -> Iterator[tuple[int, Path]]:
    """A forward to `port` of pod `plain`, as a user who may do nothing else; and the file it complains to."""
    said = plane.root / f"forward-{port}.log"
    command = [str(BIN / "kubectl"), f"--as={MALLORY}", "port-forward", "pod/plain", f":{port}"]
    with said.open("wb") as log:
        process = subprocess.Popen(command, env=plane.environment, stdout=subprocess.PIPE, stderr=log)
    assert process.stdout is not None
    try:
        line = process.stdout.readline().decode()
        yield int(line.split(":")[1].split()[0]), said
    finally:
        process.kill()
        process.communicate()


# every listening socket


def listeners(plane: Plane) -> dict[int, str]:
    """Port -> the address it is bound to, of every TCP socket that a process of the plane listens at."""
    inodes = {inode for pid in plane.processes() for inode in sockets_of(pid)}
    found = {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            local, _, state, *rest = line.split()[1:]
            if state == LISTEN and rest[5] in inodes:
                host, _, port = local.partition(":")
                found[int(port, 16)] = address_of(host)
    return found


def address_of(text: str) -> str:
    """An address of /proc/net, whose words are little endian; one of IPv4 in IPv6 is shown as IPv4."""
    words = b"".join(bytes.fromhex(text[at : at + 8])[::-1] for at in range(0, len(text), 8))
    found = ipaddress.ip_address(words)
    return str(getattr(found, "ipv4_mapped", None) or found)


def sockets_of(pid: int) -> set[str]:
    found = set()
    with contextlib.suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found.update(re.findall(r"socket:\[(\d+)\]", str(entry.readlink())))
    return found


def named(plane: Plane) -> dict[str, int]:
    """Ports by the names of the table in docs/explanation/security.md."""
    status = json.loads(plane.nodeplane("status", "-o", "json"))
    known = {
        "API": api_port(plane),
        "store": port_in(plane, "store.addr"),
        "node endpoint": port_in(plane, "node-endpoint.port"),
        "healthz": HEALTHZ_PORT,
        "metrics": int(str(status["endpoints"]["metrics"]).partition("/metrics")[0].rpartition(":")[2]),
    }
    others = set(listeners(plane)) - set(known.values())
    assert len(others) == 1, f"listening sockets that docs/explanation/security.md does not name: {others}"
    return {**known, "streams": others.pop()}


def documented() -> list[str]:
    """First column of the table of listening sockets."""
    part = SECURITY.read_text().partition("<!-- sockets -->")[2].partition("<!-- end -->")[0]
    return [line.split("|")[1].strip().strip("`") for line in part.splitlines() if line.startswith("| `")]


def test_every_listening_socket_is_documented_and_on_loopback(plane: Plane) -> None:
    found, names = listeners(plane), named(plane)
    assert set(found) == set(names.values())
    assert sorted(names) == sorted(documented())
    assert set(found.values()) == {"127.0.0.1"}


def get(url: str, context: ssl.SSLContext | None = None, **headers: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, None, headers), context=context, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def greeted(port: int, context: ssl.SSLContext) -> bytes:
    """First byte of the answer to an HTTP/2 preface, b"" from a server that refuses the handshake."""
    with (
        contextlib.suppress(OSError),
        socket.create_connection(("127.0.0.1", port), timeout=30) as raw,
        context.wrap_socket(raw) as tls,
    ):
        tls.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)))
        return tls.recv(1)
    return b""


def unverified(plane: Plane, user: str = "") -> ssl.SSLContext:
    """As an attacker comes, who does not care whom it talks to."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if user:
        context.load_cert_chain(*pair(plane, user))
    return context


def test_a_process_without_credentials_gets_nothing_at_any_socket(plane: Plane) -> None:
    ports, stranger = named(plane), unverified(plane)
    api = f"https://127.0.0.1:{ports['API']}"
    assert [get(f"{api}{path}", stranger)[0] for path in ("/healthz", "/livez", "/readyz", "/version")] == [200] * 4
    assert [get(f"{api}{path}", stranger)[0] for path in ("/api", "/apis", "/metrics", "/openapi/v3")] == [401] * 4
    node = f"https://127.0.0.1:{ports['node endpoint']}"
    for path in ("/stats/summary", "/containerLogs/default/plain/a", "/exec/default/plain/a?command=id&output=1"):
        assert get(f"{node}{path}", stranger)[0] == 401
        assert get(f"{node}{path}", unverified(plane, "scheduler"))[0] == 403
    healthz = f"http://127.0.0.1:{ports['healthz']}"
    assert [get(f"{healthz}{path}")[0] for path in ("/healthz", "/metrics", "/pods", "/configz")] == [200] + [404] * 3
    assert greeted(ports["store"], stranger) == b""
    streams = f"http://127.0.0.1:{ports['streams']}"
    assert [get(f"{streams}{path}")[0] for path in ("/", "/exec/guess", "/portforward/")] == [404] * 3
    pages = f"http://127.0.0.1:{ports['metrics']}"
    assert [get(f"{pages}{path}")[0] for path in ("/metrics", "/healthz", "/debug/pprof", "/logs")] == [
        200,
        200,
        404,
        404,
    ]


AS_NOBODY = """
import os, socket, sys
os.setgroups([]), os.setgid(65534), os.setuid(65534)
for path in sys.argv[1:]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        try:
            peer.connect(path)
            print("connected to", path)
        except PermissionError:
            pass
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root becomes another user")
def test_another_user_reaches_no_socket_of_bus_store_runtime_and_kubelet(plane: Plane) -> None:
    """Neither by the modes of the directories, nor by those of the sockets once a directory is open."""
    sockets = [path for path in plane.root.rglob("*") if path.is_socket()]
    assert {"store.sock", "runtime.sock", "kubelet.sock", "devices.rpc", "devices.pub"} <= {
        each.name for each in sockets
    }
    ask = [sys.executable, "-I", "-c", AS_NOBODY, *map(str, sockets)]
    assert subprocess.run(ask, capture_output=True, text=True, check=True).stdout == ""
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (*sockets, *plane.root.glob("logs/*.log"))}
    assert modes == {0o600}
    private = [plane.root, *(plane.root / name for name in ("run", "pki", "logs", "store", "runtime"))]
    assert {stat.S_IMODE(path.stat().st_mode) for path in private} == {0o700}


def test_metrics_page_holds_no_secret_material(plane: Plane) -> None:
    page = get(f"http://127.0.0.1:{named(plane)['metrics']}/metrics")[1].decode()
    assert "nodeplane" in page
    assert "treasure" not in page
    assert "BEGIN" not in page
    assert "Bearer" not in page


def test_probe_sends_no_credential_of_the_node(plane: Plane) -> None:
    """A probe may name any host and port; what it sends there is the pod's own words."""
    heard: list[Any] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        probe = {"httpGet": {"host": "127.0.0.1", "port": port, "path": "/x"}, "periodSeconds": 1}
        container = {"name": "a", "image": "busybox:1", "command": ["sleep", "1000"], "readinessProbe": probe}
        spec = {"terminationGracePeriodSeconds": 0, "containers": [container]}
        plane.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probed"}, "spec": spec})
        server.settimeout(60)
        with server.accept()[0] as caller:
            heard.append(caller.recv(65536).decode())
            caller.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    assert heard[0].startswith("GET /x HTTP/1.1")
    assert "Authorization" not in heard[0]
    plane.delete("pod", "probed", wait=False)


# what each credential may do


def page_part(name: str) -> str:
    """The table of docs/explanation/security.md between its marks."""
    return SECURITY.read_text().partition(f"<!-- {name} -->\n")[2].partition("\n<!-- end -->")[0]


def callers(plane: Plane, column: str) -> list[Caller]:
    port, ca = api_port(plane), plane.root / "pki" / "ca.crt"
    if column == "nobody":
        return [Caller(port, ca, None)]
    if column == "service account":
        return [Caller(port, ca, None, plane.kubectl("create", "token", "default").strip())]
    return [Caller(port, ca, pair(plane, name)) for name in PAIRS.get(column, (column,))]


def test_rights_of_every_credential_are_those_of_the_page(plane: Plane) -> None:
    """What fails here is what to put there, after a thought whether it should be so."""
    table = rights_table(lambda column: callers(plane, column))
    assert page_part("rights") == table, f"\n{table}"


EVERYBODY = "everybody who is authenticated"


def test_rules_of_the_planes_users_are_those_of_the_page(plane: Plane) -> None:
    columns = {
        "a service account": "service account",
        "API server at nodes": "apiserver-kubelet-client",
        "scheduler": "scheduler",
        "controllers": "controllers",
        "admin": "admin",
    }
    asked = {name: callers(plane, column)[0] for name, column in columns.items()}
    known = {name: caller.rules() for name, caller in asked.items()}
    shared = [rule for rule in known["a service account"] if rule in known["API server at nodes"]]
    table = rules_table({EVERYBODY: shared, **known})
    for caller in asked.values():
        caller.close()
    assert page_part("rules") == table, f"\n{table}"


def test_certificate_of_the_store_is_nobody_at_the_api(plane: Plane) -> None:
    stranger = Caller(api_port(plane), plane.root / "pki" / "ca.crt", pair(plane, ETCD_CLIENT))
    with pytest.raises((OSError, http.client.HTTPException)):
        stranger.ask("GET", "/api")
    stranger.close()
