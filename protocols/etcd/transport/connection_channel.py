"""A gRPC channel over connections of our own, in place of gRPC's.

Without gRPC's threads a call costs the process a fraction: no wake-up but the socket's. `CallConnection` is the
interface of a connection; private_connection.py and http2_connection.py implement it.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, NoReturn, Protocol

import grpc
from google.protobuf.message import Message

from protocols.etcd.transport.frames import ERROR, LARGEST_REQUEST, NOT_CONNECTED
from protocols.process.deadlines import Deadlines
from protocols.process.tasks import shared
from protocols.wire.methods import rpc_error

LOST = "the connection to the store broke"

OnMessage = Callable[[int, int, bytes], None]
"""Receives number of a call, kind and body. The kind is OK for a message, ERROR for the end, as in frames.py."""


class CallConnection(Protocol):
    """An open connection."""

    @property
    def draining(self) -> bool:
        """New calls need another one; those under way may finish."""

    def send(self, number: int, method: str, body: bytes, last: bool) -> None:
        """Send a message; the first one of a number begins its call, and with `last` it is the only one."""

    def cancel(self, number: int) -> None:
        """Give up a call."""

    def pause(self, pause: bool) -> None:
        """Stop or resume reading from the socket."""

    def close(self) -> None: ...


Dial = Callable[[OnMessage, Callable[[], None]], Awaitable[CallConnection]]
"""Open a connection; the callables receive its messages and its end. Raises OSError."""


SHORTEST_PAUSE, LONGEST_PAUSE, PAUSE_SHARE = 0.01, 0.5, 0.1
"""Seconds between two tries to connect, and their share of the time waited: a store that starts is found soon."""
AHEAD, AHEAD_BYTES = 64, 16 << 20
"""Messages of a stream that wait here, and their bytes; further ones wait in the kernel."""
SERVICE = "/etcdserverpb."


async def persistently(dial: Callable[[], Any]) -> CallConnection:
    """Retry until the store accepts a connection; the caller's deadline ends it."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while True:
        try:
            connection: CallConnection = await dial()
        except OSError:
            pause = max(SHORTEST_PAUSE, PAUSE_SHARE * (loop.time() - began))
            await asyncio.sleep(min(LONGEST_PAUSE, pause))
        else:
            return connection


class ConnectionChannel:
    """Calls share a connection, opened when it is needed, also after it broke; a stream has its own."""

    def __init__(self, name: str, dial: Dial) -> None:
        self._name, self._dial = name, dial
        self._connection: CallConnection | None = None
        self._why = ""
        self._connecting = asyncio.Lock()
        self._trying: asyncio.Task[None] | None = None
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._deadlines = Deadlines()
        self._loop: asyncio.AbstractEventLoop
        self._number = 0
        self._streams: set[ConnectionStream] = set()

    def unary_unary(self, path: str, request_serializer: Any, response_deserializer: Any) -> Callable[..., Any]:
        return partial(self._ask, path.removeprefix(SERVICE), request_serializer, response_deserializer)

    def stream_stream(self, path: str, request_serializer: Any, response_deserializer: Any) -> Callable[..., Any]:
        method = path.removeprefix(SERVICE)

        def begin(metadata: object = (), wait_for_ready: bool = True) -> "ConnectionStream":
            forms = request_serializer, response_deserializer
            stream = ConnectionStream(self._dial, method, forms, self._streams.discard, patient=wait_for_ready)
            self._streams.add(stream)
            return stream

        return begin

    @property
    def open(self) -> bool:
        """True when there is a connection for the next call."""
        return self._connection is not None and not self._connection.draining

    async def stands(self, patience: float) -> bool:
        """Return True when there is a connection, after at most one try of `patience` seconds that callers share."""
        if self.open:
            return True
        if self._trying is None or self._trying.done():
            self._trying = shared(self._try(), "store connection", self._name)
        await asyncio.wait((self._trying,), timeout=patience)
        return self.open

    async def _try(self) -> None:
        with suppress(OSError):
            async with self._connecting:
                if not self.open:
                    self._connection = await self._open()

    async def close(self, grace: float | None = None) -> None:
        self._deadlines.close()
        if self._trying is not None:
            self._trying.cancel()
        if self._connection is not None:
            self._connection.close()
        for stream in list(self._streams):
            stream.cancel()

    async def _ask(
        self,
        method: str,
        pack: Callable[[Message], bytes],
        unpack: Callable[[bytes], Any],
        request: Message,
        timeout: float,
        wait_for_ready: bool = True,
    ) -> Any:
        """Make a unary call, in one coroutine: each further one would cost as much as packing the message."""
        body = pack(request)
        if len(body) > LARGEST_REQUEST:
            raise rpc_error("INVALID_ARGUMENT", "etcdserver: request is too large")
        connection = self._connection
        if connection is None or connection.draining:
            connection, timeout = await self._connected(timeout, wait_for_ready)
        self._number = number = self._number % 0xFFFFFFFF + 1
        answer: asyncio.Future[bytes] = self._loop.create_future()
        self._waiting[number] = answer
        end = self._deadlines.add(timeout, _expire, answer)
        connection.send(number, method, body, last=True)
        try:
            return unpack(await answer)
        except (grpc.aio.AioRpcError, asyncio.CancelledError):
            connection.cancel(number)
            raise
        finally:
            self._deadlines.remove(end)
            del self._waiting[number]

    async def _connected(self, timeout: float, wait: bool) -> tuple[CallConnection, float]:
        """Return a connection, and the seconds that are left."""
        if not wait:
            raise rpc_error("UNAVAILABLE", f"the store at {self._name} {NOT_CONNECTED}")
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        connection = await self._connect(timeout)
        return connection, max(0.0, deadline - loop.time())

    async def _connect(self, timeout: float) -> CallConnection:
        try:
            async with asyncio.timeout(timeout), self._connecting:
                if self._connection is None or self._connection.draining:
                    self._connection = await persistently(self._open)
                return self._connection
        except TimeoutError:
            text = f"the store at {self._name} {NOT_CONNECTED}: {self._why}".removesuffix(": ")
            raise rpc_error("DEADLINE_EXCEEDED", text) from None

    async def _open(self) -> CallConnection:
        self._loop = asyncio.get_running_loop()
        opened: list[CallConnection] = []

        def lost() -> None:
            """Forget the connection, unless it was replaced already."""
            if opened and self._connection is opened[0]:
                self._connection = None

        try:
            opened.append(await self._dial(self._take, lost))
            if opened[0].draining:  # it broke before anybody held it, so nobody was notified
                raise ConnectionResetError(LOST)
        except OSError as error:
            self._why = str(error)
            raise
        return opened[0]

    def _take(self, number: int, kind: int, body: bytes) -> None:
        answer = self._waiting.get(number)
        if answer is None or answer.done():
            return
        if kind == ERROR:
            answer.set_exception(_error_of(body))
        else:
            answer.set_result(body)


class ConnectionStream:
    """A stream of messages both ways. What is not read waits in the kernel, not here."""

    def __init__(
        self,
        dial: Dial,
        method: str,
        forms: tuple[Callable[[Message], bytes], Callable[[bytes], Message]],
        on_end: Callable[["ConnectionStream"], None],
        patient: bool,
    ) -> None:
        self._dial, self._method, self._on_end = dial, method, on_end
        self._serializer, self._deserializer = forms
        self._patient = patient
        """Wait for a store that is away; else the stream ends, and the caller tries another member."""
        self._connection: CallConnection | None = None
        self._arrived: deque[bytes] = deque()
        self._bytes = 0
        self._more = asyncio.Event()
        self._end: grpc.aio.AioRpcError | None = None
        self._cancelled = self._paused = False

    async def write(self, request: Message) -> None:
        if self._connection is None and self._end is None:
            self._connection = await self._begin()
        if self._end is not None or self._connection is None:
            if self._connection is not None:
                self._connection.close()
            raise self._end or rpc_error("UNAVAILABLE", LOST)
        self._connection.send(1, self._method, self._serializer(request), last=False)

    async def _begin(self) -> CallConnection:
        if self._patient:
            return await persistently(lambda: self._dial(self._take, self._lose))
        try:
            return await self._dial(self._take, self._lose)
        except OSError as error:
            raise rpc_error("UNAVAILABLE", str(error)) from None

    @property
    def more(self) -> bool:
        """True when a message can be read at once."""
        return bool(self._arrived)

    def hold(self) -> None:
        """Leave further messages in the kernel until the next read, so that they wake nobody."""
        self._pause(True)

    async def read(self) -> Message:
        """Return the next message. Raises AioRpcError at the end, CancelledError after cancel()."""
        while not self._arrived:
            if self._end is not None:
                self._raise_end(self._end)
            self._pause(False)
            self._more.clear()
            await self._more.wait()
        body = self._arrived.popleft()
        self._bytes -= len(body)
        return self._deserializer(body)

    def _raise_end(self, end: grpc.aio.AioRpcError) -> NoReturn:
        raise asyncio.CancelledError if self._cancelled else end

    def _take(self, number: int, kind: int, body: bytes) -> None:
        if kind == ERROR:
            self._end = self._end or _error_of(body)
        else:
            self._arrived.append(body)
            self._bytes += len(body)
            self._pause(len(self._arrived) > AHEAD or self._bytes > AHEAD_BYTES)
        self._more.set()

    def _pause(self, pause: bool) -> None:
        if self._connection is not None and pause is not self._paused:
            self._paused = pause
            self._connection.pause(pause)

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


def _error_of(body: bytes) -> grpc.aio.AioRpcError:
    code, _, text = body.decode(errors="replace").partition("\0")
    return rpc_error(code if code in grpc.StatusCode.__members__ else "UNKNOWN", text)
