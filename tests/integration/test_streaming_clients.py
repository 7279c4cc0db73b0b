"""Exec, attach, port-forward and logs as other clients than kubectl ask for them: Python's, and browsers' protocols."""

import asyncio
import base64
import contextlib
import json
import socketserver
import ssl
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import aiohttp
import pytest

from tests.support.connections import Connections
from tests.support.plane import Plane, until

SESSION = Path(__file__).parents[1] / "support" / "sessions" / "streaming_session.py"
POD = "/api/v1/namespaces/default/pods/plain"
FAILED = "command terminated with non-zero exit code: exit status 7"


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """A whole plane."""
    with Plane() as started:
        started.apply(pod("plain", ["sh", "-c", "echo one; echo two; exec sleep 1000"]))
        started.apply(pod("cat", ["cat"], stdin=True))
        for name in ("plain", "cat"):
            started.pod_ready(name)
        until("the whole log", lambda: started.kubectl("logs", "plain") == "one\ntwo\n", every=0.2)
        yield started


def pod(name: str, command: list[str], **container: Any) -> dict[str, Any]:
    spec = {
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "a", "image": "busybox:1", "command": command, **container}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@contextlib.asynccontextmanager
async def session(plane: Plane) -> Any:
    url = plane.kubectl("config", "view", "-o", "jsonpath={.clusters[0].cluster.server}", "--raw")
    pki = plane.root / "pki"
    context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
    context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
    connections = Connections()
    connector = aiohttp.TCPConnector(ssl=context, socket_factory=connections.make)
    async with asyncio.timeout(60), aiohttp.ClientSession(url, connector=connector) as opened:
        yield opened
    await connections.closed()


@contextlib.contextmanager
def echoing() -> Iterator[int]:
    """A port that sends back what it gets, in capitals, until it gets `end`."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            while (data := self.request.recv(65536)) and data != b"end":
                self.request.sendall(data.upper())

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


@pytest.mark.parametrize("library", ["kubernetes", "kr8s"])
def test_streams_of_a_python_library_pass(plane: Plane, library: str) -> None:
    pytest.importorskip(library)
    command = [sys.executable, str(SESSION), library, str(plane.root / "kubeconfig")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "done\n", done.stderr


@pytest.mark.parametrize("protocol", ["", "channel.k8s.io"])
async def test_exec_before_v4_has_text_of_failures_only(plane: Plane, protocol: str) -> None:
    offers = (protocol,) if protocol else ()
    async with session(plane) as api:
        async with api.ws_connect(f"{POD}/exec?command=echo&command=hi&stdout=1", protocols=offers) as opened:
            assert (opened.protocol or "") == protocol
            assert await opened.receive_bytes() == b"\1"
            assert await _all(opened) == [b"\1hi\n"]
            assert opened.close_code == 1000
        command = "command=sh&command=-c&command=exit+7&stdout=1"
        async with api.ws_connect(f"{POD}/exec?{command}", protocols=offers) as opened:
            assert (await _all(opened))[-1] == b"\3" + FAILED.encode()


@pytest.mark.parametrize("protocol", ["base64.channel.k8s.io", "v4.base64.channel.k8s.io"])
async def test_exec_in_base64_takes_and_gives_it(plane: Plane, protocol: str) -> None:
    command = "command=sh&command=-c&command=read+a;echo+got+$a;exit+7&stdin=1&stdout=1"
    async with session(plane) as api, api.ws_connect(f"{POD}/exec?{command}", protocols=(protocol,)) as opened:
        await opened.send_str("0" + base64.b64encode(b"it\n").decode())
        messages = [message.data async for message in opened]
    assert messages[0] == "1"
    assert [base64.b64decode(message[1:]) for message in messages[1:-1]] == [b"got it\n"]
    last = base64.b64decode(messages[-1][1:]).decode()
    assert last == FAILED if protocol == "base64.channel.k8s.io" else json.loads(last)["message"] == FAILED


async def _all(opened: aiohttp.ClientWebSocketResponse) -> list[bytes]:
    return [message.data async for message in opened if message.data]


@pytest.mark.parametrize("protocol", ["", "binary.k8s.io", "base64.binary.k8s.io"])
async def test_a_log_comes_over_a_websocket(plane: Plane, protocol: str) -> None:
    offers = (protocol,) if protocol else ()
    async with session(plane) as api, api.ws_connect(f"{POD}/log", protocols=offers) as opened:
        messages = [message.data async for message in opened]
        assert opened.close_code == 1000
    if protocol.startswith("base64"):
        messages = [base64.b64decode(message) for message in messages]
    assert messages[0] == b""
    assert b"".join(messages) == b"one\ntwo\n"


async def test_a_followed_log_over_a_websocket_ends_with_its_client(plane: Plane) -> None:
    async with session(plane) as api:
        async with api.ws_connect(f"{POD}/log?follow=true", protocols=("binary.k8s.io",)) as opened:
            received = b""
            while received != b"one\ntwo\n":
                received += await opened.receive_bytes()
        assert opened.close_code == 1000


async def test_forward_without_a_protocol_names_its_ports_first(plane: Plane) -> None:
    with echoing() as port:
        async with session(plane) as api, api.ws_connect(f"{POD}/portforward?ports={port}") as opened:
            assert [await opened.receive_bytes() for _ in range(2)] == [
                bytes([channel]) + struct.pack("<H", port) for channel in range(2)
            ]
            await opened.send_bytes(b"\0hello")
            assert await opened.receive_bytes() == b"\0HELLO"
            await opened.send_bytes(b"\0end")
            assert (await opened.receive()).type is aiohttp.WSMsgType.CLOSE


async def test_a_forward_without_ports_or_known_protocols_is_rejected(plane: Plane) -> None:
    async with session(plane) as api:
        for path, offer, wanted in (
            ("portforward", "v4.channel.k8s.io", '"ports" is required'),
            ("portforward?ports=x", "v4.channel.k8s.io", "as a port"),
            ("exec?command=ls&stdout=1", "v9.channel.k8s.io", "v5.channel.k8s.io"),
            ("log", "channel.k8s.io", "binary.k8s.io"),
        ):
            headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Protocol": offer}
            async with api.get(f"{POD}/{path}", headers=headers) as answer:
                assert answer.status == 400
                assert wanted in (await answer.json())["message"]
