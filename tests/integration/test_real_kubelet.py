"""A kubelet behind our API: its paths, SPDY unless it declares websockets, its own certificate, and nodes/proxy."""

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.support.apiserver_plane import Plane, running_plane
from tests.support.authority import Authority
from tests.support.kubelet_double import LOG, KubeletDouble

NODE = "localhost"
POD = "/api/v1/namespaces/default/pods/p"
PROXY = f"/api/v1/nodes/{NODE}/proxy"
DECLARED = ["ExtendWebSocketsToKubelet"]


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with running_plane(kubelet_insecure_tls=True) as started:
        yield started


@pytest.fixture(scope="module")
def own_certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """As a kubelet without serverTLSBootstrap has it: no CA of the cluster signed it."""
    folder = tmp_path_factory.mktemp("kubelet")
    Authority(folder, "kubelet-ca").issue("kubelet", "kubelet")
    return folder / "kubelet.crt", folder / "kubelet.key"


@asynccontextmanager
async def kubelet(
    plane: Plane, certificate: tuple[Path, Path], websockets: bool
) -> AsyncIterator[tuple[KubeletDouble, aiohttp.ClientSession]]:
    """A node whose endpoint is the double's, with a running pod."""
    double = KubeletDouble(websockets)
    async with asyncio.timeout(90), double.serving(*certificate) as port, plane.client() as session:
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
            "declaredFeatures": DECLARED if websockets else None,
        }
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
        spec = {"nodeName": NODE, "containers": [{"name": "a", "image": "x", "stdin": True}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
        for path, body in (("/api/v1/nodes", node), ("/api/v1/namespaces/default/pods", pod)):
            async with session.post(path, json=body) as answer:
                assert answer.status in (201, 409), await answer.text()
        headers = {"Content-Type": "application/merge-patch+json"}
        for path, found in ((f"/api/v1/nodes/{NODE}/status", status), (f"{POD}/status", {"phase": "Running"})):
            async with session.patch(path, data=json.dumps({"status": found}), headers=headers) as answer:
                assert answer.status == 200, await answer.text()
        yield double, session


async def run(plane: Plane, *arguments: str, stdin: bytes = b"", **environment: str) -> tuple[int, bytes, str]:
    """Run kubectl beside the double; return its exit code, stdout and stderr."""
    around = {**plane.environment, **environment}
    process = await asyncio.create_subprocess_exec(
        *plane.command(*arguments), env=around, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, error = await process.communicate(stdin)
    return process.returncode or 0, out, error.decode()


@pytest.mark.parametrize("websockets", [False, True])
async def test_kubectl_reaches_a_kubelet_with_logs_exec_and_attach(
    plane: Plane, own_certificate: tuple[Path, Path], websockets: bool
) -> None:
    async with kubelet(plane, own_certificate, websockets) as (double, _):
        assert await run(plane, "logs", "p") == (0, LOG.encode(), "")
        assert double.asked == ["GET /containerLogs/default/p/a"]

        data = os.urandom(300_000).hex().encode()
        for spoken in ("true", "false"):
            environment = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": spoken}
            found = await run(plane, "exec", "-i", "p", "--", "x", "7", stdin=data, **environment)
            assert found == (7, data.upper(), "command terminated with exit code 7\n")
            code, out, _ = await run(plane, "attach", "-i", "-q", "p", stdin=data, **environment)
            assert (code, out) == (0, data.upper())
        method = "GET" if websockets else "POST"
        assert set(double.asked[1:]) == {f"{method} /exec/default/p/a", f"{method} /attach/default/p/a"}


@pytest.mark.parametrize("websockets", [False, True])
async def test_errors_of_a_kubelet_reach_the_client(
    plane: Plane, own_certificate: tuple[Path, Path], websockets: bool
) -> None:
    async with kubelet(plane, own_certificate, websockets):
        code, _, error = await run(plane, "exec", "p", "--", "missing")
        assert code == 1
        assert 'container not found ("a")' in error


@pytest.mark.parametrize("websockets", [False, True])
async def test_ports_of_a_kubelet_are_forwarded(
    plane: Plane, own_certificate: tuple[Path, Path], websockets: bool
) -> None:
    async with kubelet(plane, own_certificate, websockets) as (double, session):
        async with session.ws_connect(f"{POD}/portforward?ports=80", protocols=("v4.channel.k8s.io",)) as socket:
            assert [await socket.receive_bytes() for _ in range(2)] == [b"\0\x50\0", b"\1\x50\0"]
            await socket.send_bytes(b"\0hello")
            assert await socket.receive_bytes() == b"\x0080:hello"
        assert double.asked == [f"{'GET' if websockets else 'POST'} /portForward/default/p"]


async def test_a_log_while_the_watch_cache_is_behind_comes_from_where_the_node_is_now(
    plane: Plane, own_certificate: tuple[Path, Path]
) -> None:
    async with kubelet(plane, own_certificate, websockets=False), asyncio.timeout(90):
        assert await run(plane, "logs", "p") == (0, LOG.encode(), "")
    cache = plane.processes["watchcache"]
    cache.send_signal(signal.SIGSTOP)
    try:
        async with kubelet(plane, own_certificate, websockets=False):
            assert await run(plane, "logs", "p") == (0, LOG.encode(), "")
    finally:
        cache.send_signal(signal.SIGCONT)


async def test_a_node_is_proxied_with_its_path_query_and_body(plane: Plane, own_certificate: tuple[Path, Path]) -> None:
    async with kubelet(plane, own_certificate, websockets=True) as (double, session):
        for name in (NODE, f"https:{NODE}:"):
            async with session.get(f"/api/v1/nodes/{name}/proxy/configz?a=1&b=%26") as answer:
                assert await answer.json() == {"kubeletconfig": {}, "query": "a=1&b=%26"}
        sent = {"Authorization": "Bearer x", "Impersonate-User": "y", "X-Kept": "z"}
        async with session.post(f"{PROXY}/echo", data=b"body", headers={"X-Kept": "z", "Cookie": "c=d"}) as answer:
            assert (answer.status, await answer.read()) == (201, b"body")
            assert "Set-Cookie" not in answer.headers
        assert double.headers[-1]["X-Kept"] == "z"
        assert not {"Cookie", *sent} & double.headers[-1].keys() - {"X-Kept"}
        async with session.get(f"{PROXY}/logs", allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (301, f"{PROXY}/logs/")
        async with session.get(f"{PROXY}/") as answer:
            assert (answer.status, await answer.text()) == (404, "404 page not found\n")
        async with session.head(f"{PROXY}/configz") as answer:
            assert (answer.status, await answer.read()) == (200, b"")
        async with session.get(f"/api/v1/nodes/{NODE}:1/proxy/configz") as answer:
            assert answer.status == 400
        async with session.get("/api/v1/nodes/other/proxy/configz") as answer:
            assert answer.status == 404


async def test_a_node_is_proxied_for_those_who_may(plane: Plane, own_certificate: tuple[Path, Path]) -> None:
    async with (
        kubelet(plane, own_certificate, websockets=True) as (double, _),
        plane.client("scheduler") as session,
        session.get(f"{PROXY}/configz") as answer,
    ):
        assert answer.status == 403
        assert 'cannot get resource "nodes/proxy"' in (await answer.json())["message"]
        assert double.asked == []
