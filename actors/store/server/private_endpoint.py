"""The store's second door: the same services as over gRPC, for the plane's own processes (protocols/etcd/frames.py)."""

import asyncio
import logging
import os
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from google.protobuf.message import Message

from actors.store.model.errors import StoreUnusable
from protocols.errors import NodeplaneError
from protocols.etcd.frames import (
    ERROR,
    GREETING,
    LARGEST_REQUEST,
    METHODS,
    NUMBERS,
    OK,
    WATCH,
    BadFrame,
    Frame,
    Splitter,
    pack,
)
from protocols.wire import etcd_pb2 as pb

log = logging.getLogger("store")
AT_ONCE = 1024
"""Calls of one connection under way; past it, no more is read from it."""
WATCHING = NUMBERS[WATCH]

Unary = Callable[[bytes], Awaitable[Message]]
Watching = Callable[[AsyncIterator[pb.WatchRequest], Any], Awaitable[None]]


class Door:
    """`methods` by path; `watch` serves a stream."""

    def __init__(self, path: Path, methods: dict[str, Unary], watch: Watching) -> None:
        self._path = path
        self._methods = {NUMBERS[name]: method for name, method in methods.items() if name in NUMBERS}
        self._watch = watch
        self._server: asyncio.Server | None = None
        self.visitors: set[Visitor] = set()

    async def start(self) -> None:
        """Raises StoreUnusable."""
        # The caller holds the lock of this name, so a socket file here is a dead one's.
        self._path.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            loop = asyncio.get_running_loop()
            self._server = await loop.create_unix_server(self._visit, str(self._path), backlog=512)
        except OSError as error:
            text = f"cannot listen on {self._path}: {error.strerror}; mend that, or choose another root"
            raise StoreUnusable(text) from None
        finally:
            os.umask(before)

    def _visit(self) -> "Visitor":
        return Visitor(self, self._methods, self._watch)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        tasks = [visitor.leave() for visitor in list(self.visitors)]
        await asyncio.gather(*tasks, return_exceptions=True)
        self._path.unlink(missing_ok=True)


class Visitor(asyncio.Protocol):
    """One connection: calls beside each other, or one watch stream."""

    def __init__(self, door: Door, methods: dict[int, Unary], watch: Watching) -> None:
        self._door, self._methods, self._watch = door, methods, watch
        self._splitter = Splitter(LARGEST_REQUEST, GREETING)
        self._transport: asyncio.Transport | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._backlog: deque[Frame] = deque()
        """Arrived in one piece with what filled the limit; nothing is read until it is empty."""
        self._requests: asyncio.Queue[bytes] | None = None
        self._writable = asyncio.Event()
        self._writable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # a unix socket's is one for both directions
        self._door.visitors.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._backlog.clear()
        self._door.visitors.discard(self)
        self._writable.set()
        if self._requests is not None:
            for task in self._tasks:
                task.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()
        self._regulate()

    def resume_writing(self) -> None:
        self._writable.set()
        self._regulate()

    def _left(self) -> bool:
        """A write that failed closes the transport; `connection_lost` comes only after all that is ready to run."""
        return self._transport is None or self._transport.is_closing()

    def _regulate(self) -> None:
        """Who does not read answers, or asks too much at once, is not listened to meanwhile."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        waiting = self._requests.qsize() if self._requests is not None else 0
        busy = bool(self._backlog) or len(self._tasks) + waiting >= AT_ONCE or not self._writable.is_set()
        if busy == transport.is_reading():
            transport.pause_reading() if busy else transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._splitter.feed(data):
                if len(self._tasks) < AT_ONCE:
                    self._take(*frame)
                else:
                    self._backlog.append(frame)
        except BadFrame as error:
            log.warning("a client at the door was turned away: %s", error)
            if self._transport is not None:
                self._transport.abort()
        self._regulate()

    def _take(self, call: int, kind: int, body: bytes) -> None:
        if kind == WATCHING:
            self._take_request(call, body)
        elif method := self._methods.get(kind):
            self._spawn(self._answer(call, method, body))
        else:
            name = METHODS[kind] if kind < len(METHODS) else f"number {kind}"
            self._send(call, ERROR, f"UNIMPLEMENTED\0nodeplane's store has no method {name}".encode())

    def _take_request(self, call: int, body: bytes) -> None:
        if self._requests is None:
            self._requests = asyncio.Queue()  # bounded by _regulate
            self._spawn(self._serve_watch(call, self._requests))
        self._requests.put_nowait(body)

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._backlog and not self._left():
            self._take(*self._backlog.popleft())
        if len(self._tasks) == AT_ONCE - 1 or (self._transport and not self._transport.is_reading()):
            self._regulate()

    async def _answer(self, call: int, method: Unary, body: bytes) -> None:
        # Of large answers only one waits to be read, the others are not made yet.
        while not self._writable.is_set():
            await self._writable.wait()
        if self._left():
            return  # nobody would read it: a thousand large answers at once would hold everybody else up
        try:
            self._send(call, OK, (await method(body)).SerializeToString())
        except NodeplaneError as error:
            self._send(call, ERROR, f"{error.grpc}\0{error}".encode())
        except Exception as error:  # a bug of ours: the client gets an answer, the log the place
            log.exception("a call at the door failed")
            self._send(call, ERROR, f"UNKNOWN\0etcdserver: internal error: {type(error).__name__}".encode())

    async def _serve_watch(self, call: int, requests: asyncio.Queue[bytes]) -> None:
        await self._watch(self._read(requests), Outlet(self, call))

    async def _read(self, requests: asyncio.Queue[bytes]) -> AsyncIterator[pb.WatchRequest]:
        while True:
            yield pb.WatchRequest.FromString(await requests.get())
            self._regulate()

    def _send(self, call: int, kind: int, body: bytes) -> None:
        if self._transport is not None:
            self._transport.write(pack(call, kind, body))

    async def push(self, call: int, message: Message) -> None:
        """A message of a stream, no faster than its reader takes them."""
        self._send(call, OK, message.SerializeToString())
        await self._writable.wait()

    async def leave(self) -> None:
        if self._transport is not None:
            self._transport.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class Outlet:
    """What a watch stream writes to, in the shape of gRPC's context."""

    def __init__(self, visitor: Visitor, call: int) -> None:
        self._visitor, self._call = visitor, call

    async def write(self, message: Message) -> None:
        await self._visitor.push(self._call, message)
