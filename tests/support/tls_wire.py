"""A TLS server on `accept_tls`, and clients whose every byte a test decides about."""

import _ssl
import asyncio
import contextlib
import ctypes
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Self

from protocols.process.tasks import Tasks
from protocols.process.tls import Renewed, server_context, serving
from protocols.serving.tls_transport import accept_tls
from protocols.serving.turns import Turns
from tests.support.authority import Authority
from tests.support.waiting import until_async

LARGEST = 64 * 1024


class Recorder(asyncio.Protocol):
    """What a server's protocol hears."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.data = bytearray()
        self.pieces: list[int] = []
        self.ended = self.paused = False
        self.lost: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data
        self.pieces.append(len(data))

    def eof_received(self) -> bool:
        self.ended = True
        return False

    def connection_lost(self, error: BaseException | None) -> None:
        self.lost.set_result(error)

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False


class Echo(Recorder):
    """Sends back what it hears."""

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.transport.write(data)


class Served:
    """A server with one protocol for each connection."""

    def __init__(self, pki: Path, make: Callable[[], Recorder]) -> None:
        files = (pki / "server.crt", pki / "server.key", pki / "ca.crt")
        self.context = serving(Renewed((), lambda: server_context(*files)))
        self.protocols: list[Recorder] = []
        self.errors: list[BaseException] = []
        """Of handshakes."""
        self._make = make
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self._listening.setblocking(False)
        self.tasks, self.turns = Tasks(), Turns()
        self.port = self._listening.getsockname()[1]

    async def run(self) -> None:
        while True:
            accepted, _ = await asyncio.get_running_loop().sock_accept(self._listening)
            self.tasks.start(self._accept(accepted), "handshake")

    async def last(self) -> Recorder:
        """The protocol of the newest connection, once there is one."""
        await until_async("a connection", lambda: self.protocols, every=0.005)
        return self.protocols[-1]

    async def error(self) -> BaseException:
        """The newest error of a handshake, once there is one."""
        await until_async("a failed handshake", lambda: self.errors, every=0.005)
        return self.errors[-1]

    def close(self) -> None:
        self.tasks.cancel()
        self._listening.close()
        for protocol in self.protocols:
            protocol.transport.abort()

    async def _accept(self, accepted: socket.socket) -> None:
        protocol = self._make()
        try:
            await accept_tls(accepted, self.context, protocol, self.turns)
        except (OSError, asyncio.CancelledError) as error:
            self.errors.append(error)
        else:
            self.protocols.append(protocol)


@contextlib.asynccontextmanager
async def served(pki: Path, make: Callable[[], Recorder] = Recorder) -> AsyncIterator[Served]:
    made = Served(pki, make)
    running = asyncio.create_task(made.run())
    try:
        async with asyncio.timeout(60):
            yield made
    finally:
        running.cancel()
        made.close()
        await asyncio.sleep(0.01)  # connections that were aborted end in the next turn


def write_pki(directory: Path) -> Path:
    """The server's and a client's certificates; below `other` those of a CA that nobody knows."""
    for at in (directory, directory / "other"):
        authority = Authority(at)
        authority.issue("server")
        authority.issue("client", "somebody")
    return directory


def client_of(pki: Path, user: str = "", version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
    """`user`: the folder of the client's certificate below `pki`; empty for none."""
    context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
    context.minimum_version = context.maximum_version = version
    if user:
        context.load_cert_chain(pki / user / "client.crt", pki / user / "client.key")
    return context


class Client:
    """TLS in memory over a plain socket: bytes, records and ends are sent as a test wants them."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._in, self.out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._in, self.out, server_hostname="localhost")
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    async def connect(self, port: int, shake: bool = True) -> Self:
        await asyncio.get_running_loop().sock_connect(self.socket, ("127.0.0.1", port))
        if shake:
            await self.complete(self.tls.do_handshake)
        return self

    async def complete(self, step: Callable[[], Any]) -> Any:
        """Its result, once the other side has sent what it needs."""
        while True:
            try:
                found = step()
            except ssl.SSLWantReadError:
                await self.flush()
                await self.receive()
            else:
                await self.flush()
                return found

    async def receive(self) -> None:
        if data := await asyncio.get_running_loop().sock_recv(self.socket, LARGEST):
            self._in.write(data)
        else:
            self._in.write_eof()

    async def flush(self) -> None:
        await self.raw(self.out.read())

    async def raw(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.socket, data)

    async def write(self, data: bytes) -> None:
        self.tls.write(data)
        await self.flush()

    async def read(self, size: int) -> bytes:
        """So many bytes, or fewer at the end, which raises SSLEOFError without a close_notify."""
        found = bytearray()
        with contextlib.suppress(ssl.SSLZeroReturnError):  # the end, when both have said so
            while len(found) < size and (data := await self.complete(lambda: self.tls.read(LARGEST))):
                found += data
        return bytes(found)

    async def say_goodbye(self) -> None:
        """Send close_notify, and go on to read."""
        with contextlib.suppress(ssl.SSLWantReadError):
            self.tls.unwrap()
        await self.flush()

    def reset(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def control(self, function: str, *values: int) -> int:
        """Call OpenSSL for what Python has no name. Its pointer is the second behind the object's header."""
        inner: object = self.tls._sslobj  # type: ignore[attr-defined]
        place = id(inner) + object.__basicsize__ + ctypes.sizeof(ctypes.c_void_p)
        called = getattr(ctypes.CDLL(getattr(_ssl, "__file__", None)), function)
        called.argtypes = (ctypes.c_void_p, *(ctypes.c_int for _ in values))
        return int(called(ctypes.c_void_p.from_address(place).value, *values))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()
