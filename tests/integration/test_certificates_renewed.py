"""Certificates that are replaced under running servers and clients: the next connection uses them, open ones stay."""

import asyncio
import shutil
import ssl
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import grpc
import pytest

from actors.apiserver.http.routing.server import ServerOptions, tls_context
from actors.store.model.options import StoreOptions
from actors.store.server.client_certificates import server_credentials
from actors.store.server.grpc_server import Routes
from protocols.etcd.members import contexts_of
from protocols.etcd.options import EtcdOptions
from protocols.process.tls import Renewed, serving
from tests.support.authority import Authority
from tests.support.store_lab import short_directory

Peer = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
def root() -> Iterator[Path]:
    """Old and new certificates, and a directory that uses the old ones."""
    with short_directory() as made:
        for name in ("old", "new"):
            authority = Authority(made / name)
            authority.issue("server", f"{name}-server")
            authority.issue("client", f"{name}-client")
        (made / "used").mkdir()
        use(made, "old", "server", "client", "ca")
        yield made


def use(root: Path, generation: str, *names: str) -> None:
    """As an administrator does: one file after the other, in place."""
    for name in names:
        for suffix in ("crt", "key") if name != "ca" else ("crt",):
            shutil.copyfile(root / generation / f"{name}.{suffix}", root / "used" / f"{name}.{suffix}")


async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Tells whom the client's certificate names, line by line, until it goes."""
    certificate = writer.get_extra_info("peercert") or {"subject": ()}
    name = next((value for pairs in certificate["subject"] for key, value in pairs if key == "commonName"), "nobody")
    while await reader.readline():
        writer.write(f"{name}\n".encode())
    writer.close()


async def told(peer: Peer) -> str:
    peer[1].write(b"?\n")
    return (await asyncio.wait_for(peer[0].readline(), 60)).decode().strip()


async def test_new_files_serve_new_connections_on_both_sides(root: Path) -> None:
    used = root / "used"
    server = ServerOptions(port=0, cert=used / "server.crt", key=used / "server.key", client_ca=used / "ca.crt")
    client = EtcdOptions(endpoints=("x:1",), ca=used / "ca.crt", cert=used / "client.crt", key=used / "client.key")
    listening = serving(Renewed((server.cert, server.key, server.client_ca), partial(tls_context, server)))
    calling = contexts_of(client)
    assert calling is not None

    bound = await asyncio.start_server(greet, "127.0.0.1", 0, ssl=listening)
    port = bound.sockets[0].getsockname()[1]

    async def connect(context: ssl.SSLContext) -> Peer:
        return await asyncio.open_connection("127.0.0.1", port, ssl=context)

    async def greeted() -> None:
        """Of TLS 1.3 a client may hear only now that it was refused."""
        assert await told(await connect(calling()))

    first = await connect(calling())
    before = calling()
    assert await told(first) == "old-client"
    (used / "client.key").write_text("half written")
    assert calling() is before, "what does not fit together is not used"
    use(root, "new", "client")
    with pytest.raises((ssl.SSLError, ConnectionError, AssertionError)):
        await greeted()  # the server's CA does not know it: it came too early
    use(root, "new", "server", "ca")
    second = await connect(calling())
    assert await told(second) == "new-client"
    assert await told(first) == "old-client", "an open connection stays"
    with pytest.raises(ssl.SSLError):
        await connect(before)
    for peer in (first, second):
        peer[1].close()
    bound.close()
    await bound.wait_closed()


async def test_the_stores_port_serves_new_files_without_a_restart(root: Path) -> None:
    used = root / "used"
    options = StoreOptions(
        directory=root,
        socket=root / "s",
        address_file=root / "a",
        ca=used / "ca.crt",
        cert=used / "server.crt",
        key=used / "server.key",
    )
    credentials = server_credentials(options)
    assert credentials is not None

    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Routes({}),))
    port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()

    def channel(generation: str) -> grpc.aio.Channel:
        files = (root / generation / name for name in ("ca.crt", "client.key", "client.crt"))
        proof = grpc.ssl_channel_credentials(*(file.read_bytes() for file in files))
        own = [("grpc.use_local_subchannel_pool", 1)]  # else it shares a connection with its like
        return grpc.aio.secure_channel(f"127.0.0.1:{port}", proof, own)

    async with channel("old") as first, channel("old") as late, channel("new") as second:
        await healthy(first)
        (used / "server.key").write_text("half written")
        await healthy(late)  # what does not fit together is not used
        use(root, "new", "server", "ca")
        await healthy(second)
        await healthy(first)  # an open connection stays
        async with channel("old") as gone:
            with pytest.raises(grpc.aio.AioRpcError):
                await healthy(gone, wait=False)
    await server.stop(None)


Call = grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]


async def healthy(channel: grpc.aio.Channel, wait: bool = True) -> None:
    call: Call = channel.unary_unary("/grpc.health.v1.Health/Check")
    assert await call(b"", timeout=15, wait_for_ready=wait) == b"\x08\x01"
