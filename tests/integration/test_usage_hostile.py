"""`kubectl top` beside a node whose report is garbage: that node is left out and named, the others are shown."""

import asyncio
import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

import pytest

from actors.apiserver.http.nodes import usage as usage_module
from actors.apiserver.http.nodes.client import NodeClient
from actors.apiserver.http.nodes.usage import Usage
from tests.support.apiserver_plane import Plane, running_plane

GOOD, BAD = "localhost", "127.0.0.1"
"""The names that the certificates of this plane's CA bear."""
STAMP = "2026-01-01T00:00:00Z"
FIGURES = {"cpu": {"time": STAMP, "usageNanoCores": 5_000_000}, "memory": {"workingSetBytes": 10_485_760}}


def pod(name: str) -> Any:
    return {"podRef": {"name": name, "namespace": "default"}, **FIGURES, "containers": [{"name": "c", **FIGURES}]}


SOUND = {"node": FIGURES, "pods": [pod("good"), pod("bad")], "window": 1.0}
"""Also of a pod that runs on the other node."""
REPORTS = {
    "garbage": b"\xff\xfe garbage",
    "nothing": b"",
    "no object": b"[1]",
    "no figures": b'{"node": 7, "pods": 7}',
    "no numbers": json.dumps({"node": {"cpu": {"usageNanoCores": "many"}}}).encode(),
    "no pods": b'{"pods": [null, 5]}',
    "deep": b'{"x": ' + b"[" * 100_000,
    "digits": b'{"node": {"cpu": {"usageNanoCores": ' + b"9" * 5000 + b"}}}",
    "10 MB": json.dumps({"x": "x" * 10_000_000}).encode(),
}


class Node(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, plane: Plane, report: bytes) -> None:
        self.report = report
        super().__init__(("127.0.0.1", 0), _Answer)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*plane.settings.layout.client_cert("apiserver"))
        self.socket = context.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()


class _Answer(BaseHTTPRequestHandler):
    server: Node

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.server.report)))
        self.end_headers()
        self.wfile.write(self.server.report)

    def log_message(self, format: str, *arguments: Any) -> None:
        return


class Scene:
    def __init__(self, plane: Plane, bad: Node, good: Node) -> None:
        self.plane, self.bad = plane, bad
        for name, server in ((GOOD, good), (BAD, bad)):
            plane.kubectl("create", "-f", "-", stdin=json.dumps(node(name, server.server_address[1])))
            spec = {"nodeName": name, "containers": [{"name": "c", "image": "x"}]}
            metadata = {"name": "good" if name == GOOD else "bad"}
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
            plane.kubectl("create", "-f", "-", stdin=json.dumps(body))


def node(name: str, port: int) -> Any:
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        "allocatable": {"cpu": "2", "memory": "4Gi"},
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    """An API server with a hostile and a sound node endpoint."""
    with running_plane() as plane:
        servers = Node(plane, b""), Node(plane, json.dumps(SOUND).encode())
        yield Scene(plane, *servers)
        for server in servers:
            server.shutdown()
            server.server_close()
        assert not plane.tracebacks()


@pytest.mark.parametrize("report", REPORTS)
async def test_node_with_a_bad_report_is_left_out_and_named(scene: Scene, report: str) -> None:
    scene.bad.report = REPORTS[report]
    left_out = f'node "{BAD}" is left out: its report'

    async with scene.plane.client() as session:
        for kind, shown in (("nodes", [GOOD]), ("pods", ["good"])):
            async with session.get(f"/apis/metrics.k8s.io/v1beta1/{kind}") as answer:
                assert answer.status == 200
                assert [item["metadata"]["name"] for item in (await answer.json())["items"]] == shown
                assert left_out in answer.headers["Warning"].replace("\\", "")
        async with session.get(f"/apis/metrics.k8s.io/v1beta1/nodes/{BAD}") as answer:
            assert (answer.status, left_out in (await answer.json())["message"]) == (404, True)
    assert f"node left out of usage node={BAD} reason=its report" in (
        (scene.plane.root / "apiserver-0.log").read_text()
    )


def test_kubectl_top_shows_the_others(scene: Scene) -> None:
    scene.bad.report = b"garbage"
    told = scene.plane.kubectl("top", "node", check=False)
    assert GOOD in told
    assert "is left out" in told
    assert "good" in scene.plane.kubectl("top", "pod")


def test_node_reports_of_no_pod_elsewhere(scene: Scene) -> None:
    """The good node's report names a pod of the other; its own node has none for it."""
    scene.bad.report = json.dumps({"node": FIGURES}).encode()
    assert "bad" not in scene.plane.kubectl("top", "pod", "--no-headers")


async def test_slow_node_is_left_out_at_the_deadline() -> None:
    class Slow:
        async def get(self, where: Any) -> Any:
            await asyncio.Event().wait()

    usage = Usage(cast(NodeClient, Slow()), lambda: [node("n1", 1)], lambda _key: None, answer_s=0.01)
    found, left_out = await usage._ask_all([node("n1", 1)])
    assert (found, left_out) == ([], ['node "n1" is left out: its report takes longer than 0.01 s'])


async def test_more_silent_nodes_than_are_asked_at_once_end_with_the_time_for_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Slow:
        async def get(self, where: Any) -> Any:
            await asyncio.Event().wait()

    monkeypatch.setattr(usage_module, "ALL_S", 0.05)
    nodes = [node(f"n{number}", 1) for number in range(usage_module.AT_ONCE + 8)]
    found, left_out = await Usage(cast(NodeClient, Slow()), lambda: nodes, lambda _key: None)._ask_all(nodes)
    assert (found, len(left_out)) == ([], 1)
    assert left_out[0].endswith("there is no report within 0.05 s, the time for all nodes")


async def test_nodes_without_an_endpoint_share_a_warning() -> None:
    """As the nodes of a fleet, of which there are thousands."""
    nodes = [{"metadata": {"name": f"n{number}"}} for number in range(1000)]
    usage = Usage(cast(NodeClient, None), lambda: nodes, lambda _key: None)
    warning = '1000 nodes are left out ("n0", "n1", "n2", "n3", "n4", ...): it serves no logs and no connections'
    assert await usage._ask_all(nodes) == ([], [warning])
