"""Port-forward: connections to ports of a pod, multiplexed in one SPDY connection in a websocket's messages.

Each is a pair of streams with the same request id: `data`, and `error` for the reason of a failure.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection

import aiohttp
import msgspec

from protocols.process.tasks import Tasks, awaited, cancel
from protocols.streams import spdy_frames as frames
from protocols.streams.connections import Socket
from protocols.streams.port_channels import is_port
from protocols.streams.spdy_channels import paced
from protocols.streams.spdy_frames import SpdyBroken
from protocols.streams.spdy_peers import BytesToSend, Data, Event, Opened, Reset, SpdyServer, StreamEnded

HOST, HOST_V6 = "127.0.0.1", "::1"
"""Pods of this runtime share the host's network."""
CONNECT_S = 10.0
CHUNK = 32 * 1024
AHEAD = 16
"""Chunks that a stream may be ahead of its port, before the whole connection waits for it."""
HELD = 16 << 20
"""Bytes that all streams of a connection may be ahead; a chunk of a client has up to 1 MiB."""


class PortForward(msgspec.Struct, frozen=True):
    """Parameters of a PortForward stream."""

    sandbox: str
    private: Callable[[], Collection[int]] = frozenset
    """Ports that are rejected."""
    ports: tuple[int, ...] = ()
    """Ports of clients whose protocol does not name them."""


class _Pair(msgspec.Struct, eq=False):
    request: str = ""
    data: int = 0
    error: int = 0
    port: int = 0
    pieces: "asyncio.Queue[bytes]" = msgspec.field(default_factory=lambda: asyncio.Queue(AHEAD))
    """Chunks from the client; an empty one is the end."""
    task: "asyncio.Task[None] | None" = None


class Forwarding:
    """Connections of one client."""

    def __init__(self, socket: Socket, private: Callable[[], Collection[int]]) -> None:
        self._socket = socket
        self._private = private
        self._spdy = SpdyServer()
        self._tasks = Tasks()
        self._pairs: dict[str, _Pair] = {}
        """By request id. A pair ends with its task, or when one of its streams is reset before the other is open."""
        self._by_stream: dict[int, _Pair] = {}
        self._held = 0
        """Bytes of all chunks that wait for a port."""
        self._taken = asyncio.Event()

    async def run(self) -> None:
        """Serve until the client goes away or violates the protocol."""
        try:
            async for message in self._socket:
                if message.type is aiohttp.WSMsgType.BINARY:
                    async for event in paced(self._spdy, message.data):
                        await self._on_event(event)
        except SpdyBroken:
            await self._socket.close(code=aiohttp.WSCloseCode.PROTOCOL_ERROR)
        finally:
            await self._tasks.close()

    async def _on_event(self, event: Event) -> None:
        match event:
            case BytesToSend(data):
                await self._socket.send_bytes(data)
            case Opened(stream, headers):
                await self._on_opened(stream, headers)
            case Data(stream, data) if (pair := self._by_stream.get(stream)) and stream == pair.data:
                await self._put(pair, data)
            case StreamEnded(stream) if (pair := self._by_stream.get(stream)) and stream == pair.data:
                await self._put(pair, b"")
            case Reset(stream) if pair := self._by_stream.get(stream):
                self._on_reset(pair, stream)

    def _on_reset(self, pair: _Pair, stream: int) -> None:
        if pair.task is None:
            self._drop(pair)
        elif stream == pair.data:
            pair.task.cancel()

    async def _put(self, pair: _Pair, data: bytes) -> None:
        while self._held > HELD:
            self._taken.clear()
            await self._taken.wait()
        self._held += len(data)
        await pair.pieces.put(data)
        if self._by_stream.get(pair.data) is not pair:
            self._drain(pair)  # it ended while this waited

    async def _take(self, pair: _Pair) -> bytes:
        data = await pair.pieces.get()
        self._on_taken(data)
        return data

    def _on_taken(self, data: bytes) -> None:
        self._held -= len(data)
        self._taken.set()

    def _drop(self, pair: _Pair) -> None:
        """Forget a pair, its streams, and what waits for its port."""
        self._pairs.pop(pair.request, None)
        for stream in (pair.data, pair.error):
            self._spdy.forget(stream)
            self._by_stream.pop(stream, None)
        self._drain(pair)

    def _drain(self, pair: _Pair) -> None:
        while not pair.pieces.empty():
            self._on_taken(pair.pieces.get_nowait())  # unblock a waiting put

    async def _on_opened(self, stream: int, headers: dict[str, str]) -> None:
        kind, port = headers.get("streamtype", ""), headers.get("port", "")
        if kind not in ("data", "error") or not is_port(port):
            await self._socket.send_bytes(self._spdy.reset(stream))
            return
        request = headers.get("requestid", "")
        pair = self._pairs.setdefault(request, _Pair(request, port=int(port)))
        if pair.error if kind == "error" else pair.data:
            await self._socket.send_bytes(self._spdy.reset(stream))  # the pair has this stream
            return
        if kind == "error":
            pair.error = stream
        else:
            pair.data = stream
        self._by_stream[stream] = pair
        if pair.data and pair.error:
            pair.task = self._tasks.start(self._forward(pair), "port forward")

    async def _forward(self, pair: _Pair) -> None:
        try:
            error = await self._connection(pair)
            if error:
                await self._socket.send_bytes(frames.pack_data(pair.error, error.encode()))
            await self._socket.send_bytes(frames.pack_data(pair.data, b"", fin=True))
            await self._socket.send_bytes(frames.pack_data(pair.error, b"", fin=True))
        except ConnectionError:
            return  # run() notices that the client is gone
        except Exception:
            await self._socket.send_bytes(self._spdy.reset(pair.data) + self._spdy.reset(pair.error))
            raise
        finally:
            self._drop(pair)

    async def _connection(self, pair: _Pair) -> str:
        """Copy both ways until they have ended; return the error, empty on success."""
        if pair.port in self._private():
            return f"port {pair.port} is the plane's own, not the pod's; pods share the host's network"
        try:
            async with asyncio.timeout(CONNECT_S):
                reader, writer = await _connect(pair.port)
        except (OSError, TimeoutError) as error:
            return f"failed to connect to {HOST}:{pair.port} inside the pod: {_why(error)}"
        sending = awaited(self._send(pair, writer))
        try:
            while data := await reader.read(CHUNK):
                await self._socket.send_bytes(frames.pack_data(pair.data, data))
        except OSError as error:
            return f"the connection to {HOST}:{pair.port} broke: {_why(error)}"
        finally:
            await cancel(sending)
            writer.close()
        return ""

    async def _send(self, pair: _Pair, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await self._take(pair):
                writer.write(data)
                await writer.drain()
            writer.write_eof()
            return
        while await self._take(pair):  # the port does not read any more: drop the rest
            pass


async def _connect(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect over IPv4, else over IPv6, as containerd does. Raises OSError, that of IPv4 if both fail."""
    try:
        return await asyncio.open_connection(HOST, port)
    except OSError as error:
        try:
            return await asyncio.open_connection(HOST_V6, port)
        except OSError:
            raise error from None


async def run_port_forward(socket: Socket, request: PortForward) -> None:
    """Serve one port-forward until the client ends it."""
    await Forwarding(socket, request.private).run()


def _why(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error) or "no answer"
