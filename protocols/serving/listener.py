"""Accept connections within bounds: unauthenticated ones by number, all of them by descriptors.

RESERVE descriptors stay for what the process opens itself: its log files, the store, nodes. The number of a descriptor
is the lowest free one, so the number of a new connection says how many are open.
"""

import asyncio
import logging
import resource
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress

import msgspec

from protocols.process.tasks import Tasks
from protocols.serving.connection import UNAUTHENTICATED_S, BoundedConnection
from protocols.serving.tls_transport import accept_tls
from protocols.serving.turns import Turns
from protocols.serving.unauthenticated import UnauthenticatedConnections

BACKLOG = 4096
TOGETHER = 8
"""Connections accepted in one turn of the loop: their handshakes take a millisecond each, for which others wait."""
HANDSHAKES, BUSY_PAUSE_S = 64, 0.01
"""While more handshakes are under way, the next connections are accepted after a pause, so that thousands that arrive
at once do not end theirs in the same turn. Silent connections cannot hold up others for longer."""
RESERVE = 256
"""Descriptors that connections never take."""
REFUSING = 64
"""Part of the reserve: for connections that get 503, or for which an unauthenticated one is being evicted."""
YOUNG_S = 1.0
"""A connection this young is not evicted: it may be in its handshake. New ones wait in the backlog."""
PAUSE_S = 0.05
LOGGED_S = 60.0
log = logging.getLogger(__name__)


class ListenerOptions(msgspec.Struct, frozen=True):
    """Address of a listener, its TLS and its connections."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    make: Callable[[], BoundedConnection]
    shared: bool = False
    """Other processes listen on the same port."""


class Slot:
    """One entry of UnauthenticatedConnections."""

    __slots__ = ("_unauthenticated", "began", "connection", "full", "task")

    def __init__(
        self,
        unauthenticated: "UnauthenticatedConnections[Slot]",
        connection: BoundedConnection,
        began: float,
        full: str = "",
    ) -> None:
        self._unauthenticated = unauthenticated
        self.connection = connection
        self.began = began
        self.full = full
        self.task: asyncio.Task[None] | None = None
        """The handshake."""

    def leave(self) -> None:
        self._unauthenticated.leave(self)

    def evict(self, message: str) -> None:
        self.leave()
        if self.connection.transport is not None:
            self.connection.refuse(429, message)
        elif self.task is not None:
            self.task.cancel()


class Listener:
    """A listening socket; where there is no room it evicts unauthenticated connections, or stops accepting."""

    def __init__(self, options: ListenerOptions, unauthenticated: UnauthenticatedConnections[Slot]) -> None:
        self._options = options
        self._unauthenticated = unauthenticated
        self._socket: socket.socket | None = None
        self._held: tuple[socket.socket, str] | None = None
        """Accepted, and waits for room."""
        self._timer: asyncio.TimerHandle | None = None
        self._tasks, self._turns = Tasks(), Turns()
        self._handshakes = 0
        """Under way."""
        self._most = 0
        self._next_log = 0.0
        self.evicted = 0
        self.port = 0

    def start(self) -> None:
        """Raises OSError."""
        options = self._options
        family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
        listening = socket.create_server(
            (options.host, options.port), family=family, backlog=BACKLOG, reuse_port=options.shared
        )
        listening.setblocking(False)
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._most = soft - min(RESERVE, soft // 4)
        self._socket, self.port = listening, listening.getsockname()[1]
        self._resume()

    def stop(self) -> None:
        """Open connections live on."""
        listening, self._socket = self._socket, None
        if listening is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        asyncio.get_running_loop().remove_reader(listening.fileno())
        listening.close()
        if self._held is not None:
            self._held[0].close()

    def close(self) -> None:
        """Stop listening, and end handshakes in progress."""
        self.stop()
        self._tasks.cancel()

    def _accept(self) -> None:
        self._accept_some()
        if self._handshakes > HANDSHAKES and self._timer is None:
            self._pause(BUSY_PAUSE_S)

    def _accept_some(self) -> None:
        for _ in range(TOGETHER):
            if self._socket is None or self._timer is not None:
                return
            try:
                accepted, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionError):
                return
            except OSError as error:  # no descriptor or memory is left at all
                self._report("connections cannot be accepted", error.strerror or str(error))
                self._pause()
                return
            self._admit(accepted, str(address[0]))

    def _pause(self, seconds: float = PAUSE_S) -> None:
        """The backlog holds who comes meanwhile."""
        if self._socket is not None:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._socket.fileno())
            self._timer = loop.call_later(seconds, self._resume)

    def _resume(self) -> None:
        self._timer = None
        held, self._held = self._held, None
        if held is not None:
            self._admit(*held)
        if self._socket is not None and self._timer is None:
            asyncio.get_running_loop().add_reader(self._socket.fileno(), self._accept)

    def _admit(self, accepted: socket.socket, address: str) -> None:
        now = asyncio.get_running_loop().time()
        slot = self._unauthenticated.excess(address)
        if slot is not None and now - slot.began < YOUNG_S:
            self._held = accepted, address
            self._pause()
            return
        full = ""
        if slot is None and accepted.fileno() >= self._most:
            slot = self._unauthenticated.oldest()
            if slot is None or slot.full:
                full = f"the server has {self._most} connections open: try again, or close idle ones"
        if slot is not None:
            self._evict(slot, address)
        if accepted.fileno() >= self._most + REFUSING:
            self._report("connection dropped: no descriptor is left", address)
            accepted.close()
            return
        self._begin(accepted, address, full)

    def _evict(self, slot: Slot, address: str) -> None:
        self.evicted += 1
        self._report("connection evicted: too many unauthenticated", address)
        slot.evict(f"too many unauthenticated connections, also from {address}: authenticate, or close idle ones")

    def _report(self, what: str, about: str) -> None:
        """Log a line, at most one in LOGGED_S."""
        now = time.monotonic()
        if now >= self._next_log:
            self._next_log = now + LOGGED_S
            log.warning(
                "%s about=%s unauthenticated=%d evicted=%d", what, about, len(self._unauthenticated), self.evicted
            )

    def _begin(self, accepted: socket.socket, address: str, full: str) -> None:
        loop, connection = asyncio.get_running_loop(), self._options.make()
        connection.slot = slot = Slot(self._unauthenticated, connection, loop.time(), full)
        self._unauthenticated.enter(slot, address)
        slot.task = self._tasks.start(self._handshake(accepted, slot), "handshake")

    async def _handshake(self, accepted: socket.socket, slot: Slot) -> None:
        """A handshake that fails is the client's business."""
        tls = self._options.tls
        self._handshakes += 1
        try:
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is None:
                await asyncio.get_running_loop().connect_accepted_socket(lambda: slot.connection, accepted)
            else:
                async with asyncio.timeout(UNAUTHENTICATED_S):
                    await accept_tls(accepted, tls, slot.connection, self._turns)
        except BaseException as error:
            slot.leave()
            with suppress(OSError):
                accepted.close()
            if not isinstance(error, OSError | asyncio.CancelledError):
                raise
        finally:
            self._handshakes -= 1
            slot.task = None
