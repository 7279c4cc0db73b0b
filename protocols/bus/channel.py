"""ZeroMQ sockets in an asyncio loop: the only module that touches them.

A socket's FD is edge-triggered: after any send or receive it may stay silent although messages wait. So each wake
drains until the socket is empty (or the bound per turn is reached: the next turn goes on), and each send checks again.
Nothing here ever cancels a receive or blocks.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

import msgspec
import zmq

from protocols.bounded import BoundedMap

M = TypeVar("M")
Routed = tuple[bytes, bytes]
"""A message of a ROUTER: (its name of the connection, the frame)."""

BATCH = 64
"""Messages handed on in one piece: few enough to stay in the processor's cache."""
BATCHES = 8
"""Taken from one socket in one turn of the loop."""
SEND_LIMIT = 2_000
"""Messages queued per follower at the owner before it loses some (and syncs)."""
RECEIVE_LIMIT = 10_000
RECONNECT_FIRST_MS = 10
RECONNECT_MOST_MS = 100
FRAME_LIMIT = 64 << 20
"""Bytes of one frame; a peer that sends more is cut off."""
SUBSCRIPTION_LIMIT = 1024
"""Bytes of one subscription, all that a PUB receives: ZeroMQ takes about 50 times as much memory for each."""

# Plain numbers: the enum's flag arithmetic costs more than the call it is for.
_NOBLOCK = int(zmq.NOBLOCK)
_NOBLOCK_MORE = int(zmq.NOBLOCK | zmq.SNDMORE)
_EVENTS = int(zmq.EVENTS)
_RCVMORE = int(zmq.RCVMORE)
_IN, _OUT = int(zmq.POLLIN), int(zmq.POLLOUT)


class Channel(Generic[M]):
    """One socket.

    `read` takes one message or raises; `receive` gets all that arrived, in order; `link` is called when a DEALER's
    connection comes up or goes down.
    """

    def __init__(
        self,
        socket: "zmq.Socket[bytes]",
        read: Callable[[], M],
        receive: Callable[[list[M]], None],
        link: Callable[[bool], None] | None = None,
    ) -> None:
        self._socket = socket
        self._send = _sender(socket)
        self._read = read
        self._receive = receive
        self._link = link
        self._loop = asyncio.get_running_loop()
        self._again = False
        self._closed = False
        self.up = False
        self._fd = int(socket.getsockopt(zmq.FD))
        self._loop.add_reader(self._fd, self._wake)
        self._soon()

    def send(self, data: bytes) -> bool:
        """Send a message; return False if nothing was sent: not connected, or the queue is full."""
        try:
            self._send(data, _NOBLOCK)
        except zmq.ZMQError:
            return False
        finally:
            self._recheck()
        return True

    def send_to(self, peer: bytes, data: bytes) -> bool:
        """Send to one peer of a ROUTER; return False if the peer is gone or does not read."""
        try:
            self._send(peer, _NOBLOCK_MORE)
            self._send(data, _NOBLOCK)
        except zmq.ZMQError:
            return False
        finally:
            self._recheck()
        return True

    def subscribe(self, topic: bytes) -> None:
        self._socket.setsockopt(zmq.SUBSCRIBE, topic)
        self._recheck()

    def unsubscribe(self, topic: bytes) -> None:
        self._socket.setsockopt(zmq.UNSUBSCRIBE, topic)
        self._recheck()

    def drain(self) -> None:
        """Take what has arrived by now, up to the bound."""
        self._wake()

    def close(self, linger_ms: int = 0) -> None:
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._fd)
        self._socket.close(linger_ms)

    def _recheck(self) -> None:
        """Wake up soon if the last send consumed an edge of the FD: messages wait, or the connection ended."""
        events = self._events()
        if events & _IN or (self._link is not None and self.up != bool(events & _OUT)):
            self._soon()

    def _events(self) -> int:
        return self._socket.get(_EVENTS)  # type: ignore[return-value]  # an int for this option

    def _soon(self) -> None:
        if not self._again:
            self._again = True
            self._loop.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._again = False
        self._wake()

    def _wake(self) -> None:
        if self._closed:
            return
        for _ in range(BATCHES):
            batch = self._take()
            if batch:
                self._receive(batch)
            if len(batch) < BATCH or self._closed:
                break
        else:
            self._soon()
            return
        if self._link is not None and not self._closed:
            self._watch_link(self._link)

    def _take(self) -> list[M]:
        """Return all that waits, up to the bound: one batch is cheaper than many messages."""
        batch: list[M] = []
        append, read = batch.append, self._read
        try:
            append(read())
            if not self._events() & _IN:  # cheaper than an exception, and the usual case
                return batch
            for _ in range(BATCH - 1):
                append(read())
        except zmq.ZMQError:
            pass
        return batch

    def _watch_link(self, link: Callable[[bool], None]) -> None:
        """ZMQ_IMMEDIATE: a DEALER without a finished connection is not writable."""
        events = self._events()
        if events & _IN:
            self._soon()
        up = bool(events & _OUT)
        if up != self.up:
            self.up = up
            link(up)


def _sender(socket: "zmq.Socket[bytes]") -> Callable[..., object]:
    """The binding's own send, below the layer for options we do not use: it is called for every event."""
    return super(zmq.Socket, socket).send


def _routed(socket: "zmq.Socket[bytes]") -> Routed:
    """ROUTER: the connection's name, then one frame; a message of any other shape counts as an empty one."""
    peer = socket.recv(_NOBLOCK)
    data = socket.recv(_NOBLOCK) if socket.get(_RCVMORE) else b""
    while socket.get(_RCVMORE):
        socket.recv(_NOBLOCK)
        data = b""
    return peer, data


class Publisher:
    """The PUB end: never blocks, loses for slow followers. It has no reader, so no loop watches it."""

    def __init__(self, socket: "zmq.Socket[bytes]") -> None:
        self._socket = socket
        self.send: Callable[[bytes], object] = partial(_sender(socket), flags=_NOBLOCK)

    def close(self) -> None:
        self._socket.close(0)


class Sockets:
    """Makes the sockets of one bus below its run directory. Create it after any fork."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._context = zmq.Context()
        self._context.setsockopt(zmq.LINGER, 0)
        self._context.setsockopt(zmq.MAX_SOCKETS, 4096)

    def publisher(self, name: str) -> Publisher:
        socket = self._context.socket(zmq.PUB)
        socket.setsockopt(zmq.SNDHWM, SEND_LIMIT)
        socket.setsockopt(zmq.MAXMSGSIZE, SUBSCRIPTION_LIMIT)
        self._bind(socket, f"{name}.pub")
        return Publisher(socket)

    def router(self, name: str, receive: Callable[[list[Routed]], None]) -> Channel[Routed]:
        socket = self._context.socket(zmq.ROUTER)
        socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        socket.setsockopt(zmq.SNDHWM, SEND_LIMIT)
        socket.setsockopt(zmq.RCVHWM, RECEIVE_LIMIT)
        socket.setsockopt(zmq.MAXMSGSIZE, FRAME_LIMIT)
        self._bind(socket, f"{name}.rpc")
        return Channel(socket, partial(_routed, socket), receive)

    def dealer(self, name: str, receive: Callable[[list[bytes]], None], link: Callable[[bool], None]) -> Channel[bytes]:
        """No identity is set: ROUTER names each connection afresh, so a new one never meets an old one's state."""
        socket = self._context.socket(zmq.DEALER)
        socket.setsockopt(zmq.IMMEDIATE, 1)
        socket.setsockopt(zmq.SNDHWM, RECEIVE_LIMIT)
        self._connect(socket, f"{name}.rpc")
        return Channel(socket, partial(socket.recv, _NOBLOCK), receive, link)

    def subscriber(self, name: str, receive: Callable[[list[bytes]], None]) -> Channel[bytes]:
        socket = self._context.socket(zmq.SUB)
        self._connect(socket, f"{name}.pub")
        return Channel(socket, partial(socket.recv, _NOBLOCK), receive)

    def term(self) -> None:
        """Wait until all sockets are closed, at most for their linger time; call it in a thread."""
        self._context.term()

    def remove_files(self, name: str) -> None:
        """Remove a name's socket files; call it after term(), while the lock of the name is still held."""
        for file in (f"{name}.pub", f"{name}.rpc"):
            (self._run_dir / file).unlink(missing_ok=True)

    def _connect(self, socket: "zmq.Socket[bytes]", file: str) -> None:
        socket.setsockopt(zmq.RCVHWM, RECEIVE_LIMIT)
        socket.setsockopt(zmq.MAXMSGSIZE, FRAME_LIMIT)
        socket.setsockopt(zmq.RECONNECT_IVL, RECONNECT_FIRST_MS)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, RECONNECT_MOST_MS)
        socket.connect(f"ipc://{self._run_dir / file}")

    def _bind(self, socket: "zmq.Socket[bytes]", file: str) -> None:
        """Bind a socket; only for the holder of the name's lock, since the file at the path is removed."""
        path = self._run_dir / file
        path.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            socket.bind(f"ipc://{path}")
        finally:
            os.umask(before)


log = logging.getLogger("bus")
PEERS = 256


class Counters(msgspec.Struct):
    """Messages that one bus dropped since it started, by reason; read for its metrics."""

    garbage: int = 0
    """Frames and bodies that did not decode."""
    unsent: int = 0
    """Answers and casts that found no reader."""
    late: int = 0
    """Requests dropped because their deadline had passed."""
    refused: int = 0
    """Requests rejected because too many were running."""


class Garbage:
    """Counts what does not decode and logs the first of each peer, for a bounded number of peers."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._said = BoundedMap[str, None](PEERS)

    def note(self, peer: str, why: BaseException) -> None:
        self._counters.garbage += 1
        if peer in self._said:
            return
        self._said[peer] = None
        log.warning("dropped a frame from %s: %s (further ones are only counted)", peer, why)
