"""The private endpoint: the same services as over gRPC, for the plane's own processes.

Its frames (protocols/etcd/transport/frames.py) cost a fraction of gRPC's time; the figures are in
docs/decisions/0003-store.md.
"""

import asyncio
import logging
import os
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, cast

from google.protobuf.message import Message

from actors.store.model.errors import StoreUnusable
from protocols.errors import NodeplaneError
from protocols.etcd.transport.frames import (
    ERROR,
    GREETING,
    LARGEST_REQUEST,
    METHODS,
    NUMBERS,
    OK,
    WATCH,
    BadFrame,
    Frame,
    FrameWriter,
    Splitter,
    pack,
)
from protocols.process.tasks import Tasks, report
from protocols.wire import etcd_pb2 as pb

log = logging.getLogger("store")
MAX_CALLS = 1024
"""Most running calls of one connection; at the limit nothing more is read from it."""
WATCH_NUMBER = NUMBERS[WATCH]

UnaryMethod = Callable[[bytes], Awaitable[Message]]
WatchMethod = Callable[[AsyncIterator[pb.WatchRequest], Any], Awaitable[None]]


class PrivateEndpoint:
    """Listens on a unix socket; `methods` are unary methods by path, `watch` serves a stream."""

    def __init__(self, path: Path, methods: dict[str, UnaryMethod], watch: WatchMethod) -> None:
        self._path = path
        self._methods = {NUMBERS[name]: method for name, method in methods.items() if name in NUMBERS}
        self._watch = watch
        self._server: asyncio.Server | None = None
        self.connections: set[ServedConnection] = set()

    async def start(self) -> None:
        """Listen; raise StoreUnusable if the path cannot be used."""
        # The actor holds the lock of its name, so an existing socket file belongs to a dead process.
        self._path.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            loop = asyncio.get_running_loop()
            self._server = await loop.create_unix_server(self._connect, str(self._path), backlog=512)
        except OSError as error:
            text = f"cannot listen on {self._path}: {error.strerror}; mend that, or choose another root"
            raise StoreUnusable(text) from None
        finally:
            os.umask(before)

    def _connect(self) -> "ServedConnection":
        return ServedConnection(self, self._methods, self._watch)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        tasks = [connection.close() for connection in list(self.connections)]
        await asyncio.gather(*tasks, return_exceptions=True)
        self._path.unlink(missing_ok=True)


class ServedConnection(asyncio.Protocol):
    """One connection: concurrent calls, or one watch stream."""

    def __init__(self, endpoint: PrivateEndpoint, methods: dict[int, UnaryMethod], watch: WatchMethod) -> None:
        self._endpoint, self._methods, self._watch = endpoint, methods, watch
        self._splitter = Splitter(LARGEST_REQUEST, GREETING)
        self._transport: asyncio.Transport | None = None
        self._frames: FrameWriter | None = None
        self._tasks = Tasks()
        self._backlog: deque[Frame] = deque()
        """Frames that arrived beyond the limit of calls; nothing more is read until it is empty."""
        self._requests: asyncio.Queue[bytes] | None = None
        self._writable = asyncio.Event()
        self._writable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._frames = FrameWriter(self._transport)
        self._endpoint.connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = self._frames = None
        self._backlog.clear()
        self._endpoint.connections.discard(self)
        self._writable.set()
        if self._requests is not None:
            self._tasks.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()
        self._update_reading()

    def resume_writing(self) -> None:
        self._writable.set()
        self._update_reading()

    def _is_closing(self) -> bool:
        # A failed write closes the transport at once; connection_lost is called only after other ready callbacks.
        return self._transport is None or self._transport.is_closing()

    def _update_reading(self) -> None:
        """Pause reading from a client that does not read its answers or has too many running calls."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        waiting = self._requests.qsize() if self._requests is not None else 0
        busy = bool(self._backlog) or len(self._tasks) + waiting >= MAX_CALLS or not self._writable.is_set()
        if busy == transport.is_reading():
            transport.pause_reading() if busy else transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._splitter.feed(data):
                if len(self._tasks) < MAX_CALLS:
                    self._take(*frame)
                else:
                    self._backlog.append(frame)
        except BadFrame as error:
            log.warning("connection of the private endpoint closed, bad frame error=%s", error)
            if self._transport is not None:
                self._transport.abort()
        self._update_reading()

    def _take(self, call: int, kind: int, body: bytes) -> None:
        if kind == WATCH_NUMBER:
            self._take_request(call, body)
        elif method := self._methods.get(kind):
            self._spawn(self._answer(call, method, body))
        else:
            name = METHODS[kind] if kind < len(METHODS) else f"number {kind}"
            self._send(call, ERROR, f"UNIMPLEMENTED\0nodeplane's store has no method {name}".encode())

    def _take_request(self, call: int, body: bytes) -> None:
        if self._requests is None:
            self._requests = asyncio.Queue()  # bounded by _update_reading
            self._spawn(self._serve_watch(call, self._requests))
        self._requests.put_nowait(body)

    def _spawn(self, work: Any) -> None:
        self._tasks.start(work, "store call", on_failure=self._broken).add_done_callback(self._done)

    def _broken(self, name: str, error: BaseException) -> None:
        """End the connection: its watch is served no more, and the client opens another."""
        report(name, error)
        if self._transport is not None:
            self._transport.abort()

    def _done(self, task: asyncio.Task[None]) -> None:
        if self._backlog and not self._is_closing():
            self._take(*self._backlog.popleft())
        if len(self._tasks) == MAX_CALLS - 1 or (self._transport and not self._transport.is_reading()):
            self._update_reading()

    async def _answer(self, call: int, method: UnaryMethod, body: bytes) -> None:
        # Only one large answer waits to be read; the others are not computed yet.
        while not self._writable.is_set():
            await self._writable.wait()
        if self._is_closing():
            return  # nobody would read the answer, and computing a thousand large ones would delay all others
        try:
            self._send(call, OK, (await method(body)).SerializeToString())
        except NodeplaneError as error:
            self._send(call, ERROR, f"{error.grpc}\0{error}".encode())
        except Exception as error:  # unexpected: answer the client, and log the traceback
            log.exception("call of the private endpoint failed")
            self._send(call, ERROR, f"UNKNOWN\0etcdserver: internal error: {type(error).__name__}".encode())

    async def _serve_watch(self, call: int, requests: asyncio.Queue[bytes]) -> None:
        try:
            await self._watch(self._read(requests), WatchWriter(self, call))
        except NodeplaneError as error:
            # The end of a watch is the end of its connection: requests on their way belong to no other watch.
            log.warning("watch of the private endpoint ended error=%s", error)
            self._send(call, ERROR, f"{error.grpc}\0{error}".encode())
            if self._frames is not None:
                self._frames.close()

    async def _read(self, requests: asyncio.Queue[bytes]) -> AsyncIterator[pb.WatchRequest]:
        while True:
            yield pb.WatchRequest.FromString(await requests.get())
            self._update_reading()

    def _send(self, call: int, kind: int, body: bytes) -> None:
        if self._frames is not None:
            self._frames.write(pack(call, kind, body))

    async def push(self, call: int, message: Message) -> None:
        """Send a message of a stream, no faster than the client reads."""
        self._send(call, OK, message.SerializeToString())
        await self._writable.wait()

    async def close(self) -> None:
        if self._frames is not None:
            self._frames.close()
        await self._tasks.close()


class WatchWriter:
    """The output of a watch stream, with the `write` of gRPC's context."""

    def __init__(self, connection: ServedConnection, call: int) -> None:
        self._connection, self._call = connection, call

    async def write(self, message: Message) -> None:
        await self._connection.push(self._call, message)
