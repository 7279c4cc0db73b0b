"""The client's side of the store's door (frames.py), in the shape of a gRPC channel: who uses one can use the other."""

import asyncio
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import grpc
from google.protobuf.message import Message

from protocols.etcd.frames import ERROR, GREETING, LARGEST_REQUEST, NUMBERS, BadFrame, Splitter, pack

LARGEST = 256 * 1024 * 1024
PAUSE = 0.02
"""Seconds between two tries to connect: the store may be starting."""
LOST = "the connection to the store broke"


def rpc_error(code: str, text: str) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(grpc.StatusCode[code], grpc.aio.Metadata(), grpc.aio.Metadata(), text)


class Connection(asyncio.Protocol):
    """One open connection; `on_frame` is told each answer, `on_lost` its end."""

    def __init__(self, on_frame: Callable[[int, int, bytes], None], on_lost: Callable[[], None]) -> None:
        self._on_frame, self._on_lost = on_frame, on_lost
        self._splitter = Splitter(LARGEST)
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # a unix socket's is one for both directions
        self.write(GREETING)

    def write(self, data: bytes) -> None:
        if self.transport is not None:
            self.transport.write(data)

    def data_received(self, data: bytes) -> None:
        try:
            for call, kind, body in self._splitter.feed(data):
                self._on_frame(call, kind, body)
        except BadFrame:
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        self._on_lost()

    def close(self) -> None:
        if self.transport is not None:
            self.transport.abort()


async def connect(path: Path, made: Callable[[], Connection]) -> Connection:
    """However long the store is away; the caller's deadline ends it."""
    while True:
        try:
            _, connection = await asyncio.get_running_loop().create_unix_connection(made, str(path))
        except OSError:
            await asyncio.sleep(PAUSE)
        else:
            return connection


class DoorChannel:
    """Calls share a connection, opened when it is needed, also after it broke; a stream has its own."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: Connection | None = None
        self._connecting = asyncio.Lock()
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._number = 0
        self._streams: set[DoorStream] = set()

    def unary_unary(self, path: str, request_serializer: Any, response_deserializer: Any) -> Callable[..., Any]:
        kind = NUMBERS[path.removeprefix("/etcdserverpb.")]

        async def ask(request: Message, timeout: float, wait_for_ready: bool = True) -> Any:
            return response_deserializer(await self._ask(kind, request_serializer(request), timeout))

        return ask

    def stream_stream(self, path: str, request_serializer: Any, response_deserializer: Any) -> Callable[..., Any]:
        kind = NUMBERS[path.removeprefix("/etcdserverpb.")]

        def begin(metadata: object = (), wait_for_ready: bool = True) -> "DoorStream":
            stream = DoorStream(self._path, kind, request_serializer, response_deserializer, self._streams.discard)
            self._streams.add(stream)
            return stream

        return begin

    async def close(self, grace: float | None = None) -> None:
        if self._connection is not None:
            self._connection.close()
        for stream in list(self._streams):
            stream.cancel()

    async def _ask(self, kind: int, body: bytes, timeout: float) -> bytes:
        if len(body) > LARGEST_REQUEST:
            raise rpc_error("INVALID_ARGUMENT", "etcdserver: request is too large")
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        connection = self._connection or await self._connect(timeout)
        self._number = number = self._number % 0xFFFFFFFF + 1
        answer: asyncio.Future[bytes] = loop.create_future()
        self._waiting[number] = answer
        end = loop.call_at(deadline, _expire, answer)
        connection.write(pack(number, kind, body))
        try:
            return await answer
        finally:
            end.cancel()
            self._waiting.pop(number, None)

    async def _connect(self, timeout: float) -> Connection:
        try:
            async with asyncio.timeout(timeout), self._connecting:
                if self._connection is None:
                    self._connection = await connect(self._path, lambda: Connection(self._take, self._lose))
                return self._connection
        except TimeoutError:
            raise rpc_error("DEADLINE_EXCEEDED", f"the store at {self._path} does not let us connect") from None

    def _take(self, number: int, kind: int, body: bytes) -> None:
        answer = self._waiting.get(number)
        if answer is None or answer.done():
            return
        if kind == ERROR:
            answer.set_exception(_told(body))
        else:
            answer.set_result(body)

    def _lose(self) -> None:
        self._connection = None
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(rpc_error("UNAVAILABLE", LOST))


class DoorStream:
    """A stream of messages both ways. What is not read waits in the kernel, not here."""

    def __init__(
        self,
        path: Path,
        kind: int,
        serializer: Callable[[Message], bytes],
        deserializer: Callable[[bytes], Message],
        on_end: Callable[["DoorStream"], None],
    ) -> None:
        self._path, self._kind, self._on_end = path, kind, on_end
        self._serializer, self._deserializer = serializer, deserializer
        self._connection: Connection | None = None
        self._arrived: deque[bytes] = deque()
        self._more = asyncio.Event()
        self._end: grpc.aio.AioRpcError | None = None
        self._cancelled = False

    async def write(self, request: Message) -> None:
        if self._connection is None and self._end is None:
            self._connection = await connect(self._path, lambda: Connection(self._take, self._lose))
        if self._end is not None or self._connection is None:
            raise self._end or rpc_error("UNAVAILABLE", LOST)
        self._connection.write(pack(1, self._kind, self._serializer(request)))

    async def read(self) -> Message:
        """The next message. Raises AioRpcError at the end, CancelledError after cancel()."""
        while not self._arrived:
            if self._end is not None:
                self._raise_end(self._end)
            self._pause(False)
            self._more.clear()
            await self._more.wait()
        return self._deserializer(self._arrived.popleft())

    def _raise_end(self, end: grpc.aio.AioRpcError) -> NoReturn:
        raise asyncio.CancelledError if self._cancelled else end

    def _take(self, number: int, kind: int, body: bytes) -> None:
        if kind == ERROR:
            self._end = self._end or _told(body)
        else:
            self._arrived.append(body)
            self._pause(len(self._arrived) > 64)
        self._more.set()

    def _pause(self, pause: bool) -> None:
        transport = self._connection.transport if self._connection else None
        if transport is not None and not transport.is_closing() and transport.is_reading() == pause:
            transport.pause_reading() if pause else transport.resume_reading()

    def _lose(self) -> None:
        self._end = self._end or rpc_error("UNAVAILABLE", LOST)
        self._on_end(self)
        self._more.set()

    def cancel(self) -> None:
        self._cancelled = True
        self._end = self._end or rpc_error("CANCELLED", "cancelled here")
        self._arrived.clear()
        self._on_end(self)
        if self._connection is not None:
            self._connection.close()
        self._more.set()


def _expire(answer: asyncio.Future[bytes]) -> None:
    if not answer.done():
        answer.set_exception(rpc_error("DEADLINE_EXCEEDED", "the store did not answer in time"))


def _told(body: bytes) -> grpc.aio.AioRpcError:
    code, _, text = body.decode(errors="replace").partition("\0")
    return rpc_error(code if code in grpc.StatusCode.__members__ else "UNKNOWN", text)
