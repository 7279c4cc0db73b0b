"""A node whose endpoint answers with redirects: the API server follows none, whatever it was asked for."""

import asyncio
import contextlib
import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import aiohttp
import pytest

from tests.support.apiserver_plane import Plane
from tests.support.waiting import until_async

NODE = "localhost"
"""The name that the certificates of this plane's CA bear."""
POD = "/api/v1/namespaces/default/pods/p"


class Recorder(ThreadingHTTPServer):
    """Answers each request by `code`, to `location`; keeps the paths that were asked for."""

    daemon_threads = True

    def __init__(self, code: int, location: str = "") -> None:
        self.code, self.location = code, location
        self.paths: list[str] = []
        super().__init__(("127.0.0.1", 0), _Answer)

    @property
    def port(self) -> int:
        return int(self.server_address[1])


class _Answer(BaseHTTPRequestHandler):
    server: Recorder

    def do_GET(self) -> None:
        self.server.paths.append(self.path)
        self.send_response(self.server.code)
        if self.server.location:
            self.send_header("Location", self.server.location)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    do_POST = do_GET

    def log_message(self, format: str, *arguments: Any) -> None:
        return


@contextlib.contextmanager
def serving(server: Recorder) -> Iterator[Recorder]:
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(params=[301, 302, 307, 308])
def elsewhere(plane: Plane, request: pytest.FixtureRequest) -> Iterator[tuple[Recorder, Recorder]]:
    """A node that redirects to a plain server on loopback, and that server."""
    with (
        serving(Recorder(200)) as target,
        serving(Recorder(request.param, f"http://127.0.0.1:{target.port}/stolen")) as node,
    ):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*plane.settings.layout.client_cert("apiserver"))
        node.socket = context.wrap_socket(node.socket, server_side=True)
        asyncio.run(made(plane, node.port))
        yield node, target


async def made(plane: Plane, port: int) -> None:
    """Node and pod, the node's endpoint at `port`."""
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
    spec = {"nodeName": NODE, "containers": [{"name": "a", "image": "x"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    async with plane.client() as session:
        for path, body in (("/api/v1/nodes", node), ("/api/v1/namespaces/default/pods", pod)):
            async with session.post(path, json=body) as answer:
                assert answer.status in (201, 409), await answer.text()
        headers = {"Content-Type": "application/merge-patch+json"}
        patch = json.dumps({"status": status})
        async with session.patch(f"/api/v1/nodes/{NODE}/status", data=patch, headers=headers) as answer:
            assert answer.status == 200, await answer.text()


async def test_redirects_of_a_node_are_not_followed_by_log_exec_and_forward(
    plane: Plane, elsewhere: tuple[Recorder, Recorder]
) -> None:
    node, target = elsewhere

    async with plane.client() as session:
        async with session.get(f"{POD}/log") as answer:
            assert answer.status == 503
            assert "redirects are forbidden" in (await answer.json())["message"]
        for path, protocol in (
            ("exec?command=id&stdout=1", "v5.channel.k8s.io"),
            ("portforward", "SPDY/3.1+portforward.k8s.io"),
        ):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await session.ws_connect(f"{POD}/{path}", protocols=(protocol,))
            assert refused.value.status == 503
        spdy = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "v4.channel.k8s.io"}
        async with session.post(f"{POD}/exec?command=id&stdout=1", headers=spdy) as answer:
            assert answer.status == 503
    assert len(node.paths) >= 4
    assert target.paths == []


async def test_redirects_of_a_node_leave_it_out_of_the_usage(
    plane: Plane, elsewhere: tuple[Recorder, Recorder]
) -> None:
    node, target = elsewhere

    async with plane.client() as session:

        async def asked() -> bool:
            async with session.get("/apis/metrics.k8s.io/v1beta1/nodes") as answer:
                assert answer.status == 200
                assert (await answer.json())["items"] == []
            return bool(node.paths)

        await until_async("the node is asked at its new port", asked)  # usage is that of nodes as an informer has them
    assert node.paths == ["/stats/summary"]
    assert target.paths == []
