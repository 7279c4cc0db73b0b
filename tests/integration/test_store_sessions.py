"""The store's TCP port: a resumed TLS session is nobody, and an expired certificate ends its connection's calls."""

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from actors.store.model.options import StoreOptions
from actors.store.server.client_certificates import server_credentials
from actors.store.server.grpc_server import Routes, decoding, generating, streaming, unary
from protocols.wire import etcd_pb2 as pb
from tests.support.authority import Authority
from tests.support.store_lab import short_directory

SHORT_S = 6.0
RANGE, WATCH, LEASE = "KV/Range", "Watch/Watch", "Lease/LeaseKeepAlive"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
REFUSED = grpc.StatusCode.UNAUTHENTICATED


@pytest.fixture
def pki() -> Iterator[Path]:
    """Certificates of a store and its client."""
    with short_directory() as made:
        authority = Authority(made / "pki")
        authority.issue("server", "server")
        authority.issue("client", "client")
        authority.issue("brief", "brief", seconds=SHORT_S)
        yield made / "pki"


Stream = grpc.aio.StreamStreamCall[bytes, bytes]


@contextlib.asynccontextmanager
async def store_port(pki: Path) -> AsyncIterator[int]:
    options = StoreOptions(
        directory=pki,
        socket=pki / "s",
        address_file=pki / "a",
        ca=pki / "ca.crt",
        cert=pki / "server.crt",
        key=pki / "server.key",
    )
    credentials = server_credentials(options)
    assert credentials is not None

    async def answer(request: Any) -> pb.RangeResponse:
        return pb.RangeResponse(count=1)

    async def forever(requests: Any, context: Any) -> None:
        await context.write(b"first")
        await asyncio.sleep(3600)

    async def echo(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        async for request in requests:
            yield request

    server = grpc.aio.server()
    handlers = {
        RANGE: unary(decoding(answer, pb.RangeRequest)),
        WATCH: grpc.stream_stream_rpc_method_handler(streaming(forever)),
        LEASE: grpc.stream_stream_rpc_method_handler(generating(echo)),
    }
    server.add_generic_rpc_handlers((Routes(handlers),))
    port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    yield port
    await server.stop(None)


def channel(pki: Path, port: int, client: str) -> grpc.aio.Channel:
    proof = grpc.ssl_channel_credentials(
        *((pki / f).read_bytes() for f in ("ca.crt", f"{client}.key", f"{client}.crt"))
    )
    return grpc.aio.secure_channel(f"localhost:{port}", proof, [("grpc.use_local_subchannel_pool", 1)])


async def range_of(channel: grpc.aio.Channel) -> bytes:
    call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"/etcdserverpb.{RANGE}")
    return await call(b"", timeout=60)


async def refused(call: Callable[[], Any]) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call()
    assert caught.value.code() is REFUSED, caught.value.details()


async def test_session_certificate_expires_ends_calls(pki: Path) -> None:
    async with store_port(pki) as port, channel(pki, port, "brief") as brief, channel(pki, port, "client") as good:
        watch: Stream = brief.stream_stream(f"/etcdserverpb.{WATCH}")(timeout=60)
        lease: Stream = brief.stream_stream(f"/etcdserverpb.{LEASE}")(timeout=60)
        await lease.write(b"beat")
        assert await lease.read() == b"beat"
        assert await watch.read() == b"first"
        await refused(watch.read)
        await lease.write(b"beat")
        await refused(lease.read)
        await refused(lambda: range_of(brief))
        assert await range_of(good)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_session_resumed_is_refused(pki: Path, version: ssl.TLSVersion) -> None:
    """By way of a bridge that resumes: no gRPC client does by itself."""

    async with store_port(pki) as port:
        bridge = await asyncio.to_thread(Bridge, pki, port, version)
        try:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{bridge.port}") as resumed:
                await refused(lambda: range_of(resumed))
        finally:
            bridge.close()


class Bridge:
    """Takes plain connections and forwards them over TLS, in a session that an earlier connection began."""

    def __init__(self, pki: Path, port: int, version: ssl.TLSVersion) -> None:
        self._context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        self._context.load_cert_chain(pki / "client.crt", pki / "client.key")
        self._context.minimum_version = self._context.maximum_version = version
        self._context.set_alpn_protocols(["h2"])
        self._store = port
        with self._tls(None) as first:
            first.sendall(PREFACE)
            first.recv(100)
            self._session = first.session
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open: list[socket.socket] = [self._listener]
        threading.Thread(target=self._serve, daemon=True).start()

    def _tls(self, session: ssl.SSLSession | None) -> ssl.SSLSocket:
        raw = socket.create_connection(("127.0.0.1", self._store), timeout=60)
        return self._context.wrap_socket(raw, server_hostname="localhost", session=session)

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            plain, _ = self._listener.accept()
            tls = self._tls(self._session)
            assert tls.session_reused
            tls.settimeout(0.02)  # reading and writing take turns: one TLS socket has one user
            plain.settimeout(0.02)
            self._open += [plain, tls]
            while True:
                for source, sink in ((plain, tls), (tls, plain)):
                    with contextlib.suppress(TimeoutError):
                        sink.sendall(source.recv(65536))

    def close(self) -> None:
        for each in self._open:
            each.close()
