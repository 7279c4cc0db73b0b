"""Requests that the API server forwards to nodes and pods, whose connection ends without a response."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from multidict import CIMultiDict

from actors.apiserver.api.errors import ServiceUnavailable
from actors.apiserver.http.nodes.backends import Backend
from actors.apiserver.http.nodes.client import Forwarded, NodeClient, NodeClientOptions
from actors.apiserver.http.nodes.location import Location
from actors.apiserver.http.nodes.pod_client import PodClient
from tests.support.authority import Authority

SENT = Forwarded("", CIMultiDict(), None)
METHODS = ("PUT", "DELETE", "GET", "POST")


@asynccontextmanager
async def closing_server(context: ssl.SSLContext | None = None) -> AsyncIterator[tuple[int, list[str]]]:
    """A server that reads the head of each request and closes; its port, and the methods of the requests."""
    methods: list[str] = []

    async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        methods.append(head.split()[0].decode())
        writer.close()

    server = await asyncio.start_server(close, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1], methods


async def test_request_to_pod_without_response_is_sent_once() -> None:
    client = PodClient()
    async with closing_server() as (port, methods):
        for method in METHODS:
            with pytest.raises(ServiceUnavailable) as caught:
                await client.forward(method, Backend("http", "127.0.0.1", port), "/", SENT)
            assert caught.value.retry_after == 0, "client-go would repeat it"
        await client.close()
    assert methods == list(METHODS)


async def test_request_to_node_without_response_is_sent_once(tmp_path: Path) -> None:
    Authority(tmp_path).issue("node")
    cert, key = tmp_path / "node.crt", tmp_path / "node.key"
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)
    client = NodeClient(NodeClientOptions(cert, key, tmp_path / "ca.crt", insecure=True))
    async with closing_server(context) as (port, methods):
        where = Location("n1", "127.0.0.1", port, "/", ())
        for method in METHODS:
            with pytest.raises(ServiceUnavailable) as caught:
                await client.forward(method, where, SENT)
            assert caught.value.retry_after == 0, "client-go would repeat it"
        await client.close()
    assert methods == list(METHODS)


async def test_certificate_of_node_is_not_verified_for_a_log_whose_client_says_so(tmp_path: Path) -> None:
    for place in (own := tmp_path / "own", other := tmp_path / "other"):
        place.mkdir()
        Authority(place).issue("node")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(other / "node.crt", other / "node.key")
    client = NodeClient(NodeClientOptions(own / "node.crt", own / "node.key", own / "ca.crt"))
    async with closing_server(context) as (port, methods):
        for insecure in (True, False):
            with pytest.raises(ServiceUnavailable, match="disconnected" if insecure else "certificate verify failed"):
                await client.get(Location("n1", "127.0.0.1", port, "/", (), insecure=insecure))
        await client.close()
    assert methods == ["GET"]
