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
from protocols.streams.spdy_frames import SpdyBroken
from protocols.streams.spdy_peers import BytesToSend, Data, Event, Opened, Reset, SpdyServer, StreamEnded

HOST = "127.0.0.1"
"""Pods of this runtime share the host's network."""
CONNECT_S = 10.0
CHUNK = 32 * 1024
AHEAD = 16
"""Chunks that a stream may be ahead of its port, before the whole connection waits for it."""


class PortForward(msgspec.Struct, frozen=True):
    """Parameters of a PortForward stream."""

    sandbox: str
    private: Callable[[], Collection[int]] = frozenset
    """Ports that are rejected."""
    ports: tuple[int, ...] = ()
    """Ports of clients whose protocol does not name them."""


class _Pair(msgspec.Struct, eq=False):
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
        self._by_data: dict[int, _Pair] = {}

    async def run(self) -> None:
        """Serve until the client goes away or violates the protocol."""
        try:
            async for message in self._socket:
                if message.type is aiohttp.WSMsgType.BINARY:
                    for event in self._spdy.feed(message.data):
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
            case Data(stream, data) if stream in self._by_data:
                await self._by_data[stream].pieces.put(data)
            case StreamEnded(stream) if stream in self._by_data:
                await self._by_data[stream].pieces.put(b"")
            case Reset(stream) if stream in self._by_data:
                if (task := self._by_data[stream].task) is not None:
                    task.cancel()

    async def _on_opened(self, stream: int, headers: dict[str, str]) -> None:
        kind, port = headers.get("streamtype", ""), headers.get("port", "")
        if kind not in ("data", "error") or not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            await self._socket.send_bytes(self._spdy.reset(stream))
            return
        pair = self._pairs.setdefault(headers.get("requestid", ""), _Pair(port=int(port)))
        if kind == "error":
            pair.error = stream
        else:
            pair.data = stream
            self._by_data[stream] = pair
        if pair.data and pair.error and pair.task is None:
            pair.task = self._tasks.start(self._forward(headers.get("requestid", ""), pair), "port forward")

    async def _forward(self, request: str, pair: _Pair) -> None:
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
            self._spdy.forget(pair.data)
            self._spdy.forget(pair.error)
            self._by_data.pop(pair.data, None)
            self._pairs.pop(request, None)
            while not pair.pieces.empty():
                pair.pieces.get_nowait()  # unblock a waiting put

    async def _connection(self, pair: _Pair) -> str:
        """Copy both ways until they have ended; return the error, empty on success."""
        if pair.port in self._private():
            return f"port {pair.port} is the plane's own, not the pod's; pods share the host's network"
        try:
            async with asyncio.timeout(CONNECT_S):
                reader, writer = await asyncio.open_connection(HOST, pair.port)
        except (OSError, TimeoutError) as error:
            return f"failed to connect to {HOST}:{pair.port} inside the pod: {_why(error)}"
        sending = awaited(_send(pair.pieces, writer))
        try:
            while data := await reader.read(CHUNK):
                await self._socket.send_bytes(frames.pack_data(pair.data, data))
        except OSError as error:
            return f"the connection to {HOST}:{pair.port} broke: {_why(error)}"
        finally:
            await cancel(sending)
            writer.close()
        return ""


async def run_port_forward(socket: Socket, request: PortForward) -> None:
    """Serve one port-forward until the client ends it."""
    await Forwarding(socket, request.private).run()


async def _send(pieces: "asyncio.Queue[bytes]", writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await pieces.get():
            writer.write(data)
            await writer.drain()
        writer.write_eof()
        return
    while await pieces.get():  # the port does not read any more: drop the rest
        pass


def _why(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error) or "no answer"
