"""Handshakes of a TLS server with clients that hesitate, lie, or are none."""

import asyncio
import contextlib
import hashlib
import os
import ssl
from pathlib import Path

import pytest
from aiohttp import web

from protocols.serving import listener, tls_transport
from protocols.serving.connection import BoundedServer
from protocols.serving.listener import Listener, ListenerOptions
from protocols.serving.unauthenticated import UnauthenticatedConnections, UnauthenticatedLimits
from tests.support.tls_wire import Client, Echo, client_of, served

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("user", ["", "."], ids=["absent", "ours"])
async def test_handshake_tells_who_the_client_is(pki: Path, version: ssl.TLSVersion, user: str) -> None:
    async with served(pki, Echo) as place:
        with await Client(client_of(pki, user, version)).connect(place.port) as client:
            await client.write(b"hello")
            assert await client.read(5) == b"hello"
            transport = (await place.last()).transport
            certificate = transport.get_extra_info("peercert")
            assert bool(certificate) == bool(user)
            assert transport.get_extra_info("peername") == client.socket.getsockname()
            assert transport.get_extra_info("sockname") == ("127.0.0.1", place.port)
            assert transport.get_extra_info("sslcontext") is place.context
            assert transport.get_extra_info("ssl_object").version() == client.tls.version()
            assert transport.get_extra_info("socket").fileno() >= 0
            assert transport.get_extra_info("cipher", "none") == "none"
            der = transport.get_extra_info("ssl_object").getpeercert(True)
            transport.abort()
            await asyncio.sleep(0)
            known = transport.get_extra_info(tls_transport.FINGERPRINT)
            assert known == (hashlib.sha256(der).hexdigest() if user else ""), "also for a client that is gone"


@pytest.mark.parametrize("version", VERSIONS)
async def test_handshake_with_certificate_of_unknown_ca_fails(pki: Path, version: ssl.TLSVersion) -> None:
    async with served(pki) as place:
        client = Client(client_of(pki, "other", version))
        with client, contextlib.suppress(ssl.SSLError):  # in TLS 1.3 the client is done by then
            await client.connect(place.port)
        assert "CERTIFICATE_VERIFY_FAILED" in str(await place.error())
        assert not place.protocols


async def test_client_whose_certificate_fails_reads_why_after_its_request(
    pki: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_transport, "ALERT_S", 60)
    async with served(pki) as place:
        with await Client(client_of(pki, "other")).connect(place.port) as client:
            for _ in range(2):  # the first write to a closed connection succeeds
                await asyncio.sleep(0.05)
                await client.write(b"GET / HTTP/1.1\r\n")
            with pytest.raises(ssl.SSLError, match="alert unknown ca"):
                await client.read(1)
            client.socket.close()
            assert "CERTIFICATE_VERIFY_FAILED" in str(await place.error())


async def test_client_that_never_closes_after_a_failed_handshake_is_left(
    pki: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_transport, "ALERT_S", 0.05)
    before = open_files()
    async with served(pki) as place:
        with await Client(client_of(pki, "other")).connect(place.port) as client:
            assert "CERTIFICATE_VERIFY_FAILED" in str(await place.error())
            assert client.socket.fileno() >= 0
    assert open_files() == before


async def test_handshake_of_single_bytes_succeeds(pki: Path) -> None:
    async with served(pki, Echo) as place:
        with await Client(client_of(pki, ".")).connect(place.port, shake=False) as client:
            with pytest.raises(ssl.SSLWantReadError):
                client.tls.do_handshake()
            for byte in client.out.read():
                await client.raw(bytes([byte]))
                await asyncio.sleep(0)
            await client.complete(client.tls.do_handshake)
            await client.write(b"hello")
            assert await client.read(5) == b"hello"


@pytest.mark.parametrize(
    "sent",
    [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x00" * 64, os.urandom(4096), b"\x16\x03\x01\xff\xff" + b"x" * 70_000],
    ids=["http", "zeros", "noise", "large"],
)
async def test_garbage_in_place_of_a_handshake_closes_the_socket(
    pki: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(tls_transport, "ALERT_S", 0.05)
    before = open_files()
    async with served(pki) as place:
        with await Client(client_of(pki)).connect(place.port, shake=False) as client:
            await client.raw(sent)
            assert isinstance(await place.error(), ssl.SSLError)
            assert not place.protocols
    assert open_files() == before


@pytest.mark.parametrize("how", ["reset", "end"])
async def test_client_that_leaves_during_its_handshake_frees_the_socket(pki: Path, how: str) -> None:
    before = open_files()
    async with served(pki) as place:
        client = await Client(client_of(pki)).connect(place.port, shake=False)
        with pytest.raises(ssl.SSLWantReadError):
            client.tls.do_handshake()
        await client.raw(client.out.read()[:50])
        await asyncio.sleep(0.01)
        client.reset() if how == "reset" else client.socket.close()
        assert isinstance(await place.error(), OSError)
    assert open_files() == before


async def test_cancelled_handshake_closes_the_socket(pki: Path) -> None:
    async with served(pki) as place:
        with await Client(client_of(pki)).connect(place.port, shake=False) as client:
            await asyncio.sleep(0.05)
            place.tasks.cancel()
            assert isinstance(await place.error(), asyncio.CancelledError)
            assert await asyncio.get_running_loop().sock_recv(client.socket, 10) == b""


@pytest.mark.parametrize("version", VERSIONS)
async def test_session_is_never_resumed(pki: Path, version: ssl.TLSVersion) -> None:
    context = client_of(pki, ".", version)
    async with served(pki, Echo) as place:
        with await Client(context).connect(place.port) as first:
            await first.write(b"x")
            assert await first.read(1) == b"x"
            session = first.tls.session
        assert session is None or not session.has_ticket
        second = Client(context)
        if session is not None:
            second.tls.session = session
        with await second.connect(place.port):
            assert not second.tls.session_reused


async def test_listener_ends_a_client_that_never_shakes_hands(pki: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text="hello")

    server = BoundedServer(handler, authenticated_timeout=75.0)
    unauthenticated: UnauthenticatedConnections[listener.Slot] = UnauthenticatedConnections(UnauthenticatedLimits())
    async with served(pki) as place:
        listening = Listener(ListenerOptions("127.0.0.1", 0, place.context, server), unauthenticated)
        listening.start()
        with await Client(client_of(pki)).connect(listening.port) as known:
            monkeypatch.setattr(listener, "UNAUTHENTICATED_S", 0.2)
            with await Client(client_of(pki)).connect(listening.port, shake=False) as client:
                assert await asyncio.get_running_loop().sock_recv(client.socket, 10) == b""
            await known.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await known.read(15)).startswith(b"HTTP/1.1 200 OK")
            assert len(unauthenticated) == 1
        listening.close()
        await server.shutdown(0.1)
