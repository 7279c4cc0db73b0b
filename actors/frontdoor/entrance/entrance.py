"""The socket that clients see. gRPC for Python tells no peer credentials and cannot be given a connection, so this
accepts, asks the kernel who it is, and passes the bytes on to gRPC's own private socket over a connection with a name:
by that name a call finds its caller."""

import asyncio
import os
import resource
import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from actors.frontdoor.entrance.relay import Half, Outer
from actors.frontdoor.entrance.types import UNKNOWN, EntranceLimits, Peer, peer_of
from protocols.sockets import let_group_in, prepare_socket, remove_socket

BACKLOG = 1024
BORN = ".new"
FILES_EACH = 3
"""Descriptors of one connection: the client's, and both ends of the private one."""
OTHER_FILES = 256
CONNECT_S = 5.0
LAST_BYTES_S = 5.0
ABSTRACT = "unix-abstract:"


@dataclass(frozen=True)
class EntranceOptions:
    socket: Path
    private: Path
    """Where the gRPC server listens."""
    mode: int
    group: int
    """Group id of the socket and its directory; -1 = the process's own."""
    limits: EntranceLimits
    on_refused: Callable[[str, Peer], None]
    """Told why a connection was not let in: `connections`, `client`, `silent`, `garbage`, `broken`."""
    on_closed: Callable[[Peer], None]


class Entrance:
    def __init__(self, options: EntranceOptions) -> None:
        self._options = options
        self._most = min(options.limits.connections, _affordable())
        self._open: dict[int, Connection] = {}
        self._by_name: dict[str, Peer] = {}
        self._by_client: Counter[str] = Counter()
        self._server: asyncio.Server | None = None
        self._numbers = 0

    async def start(self) -> None:
        """Raises SocketInUse when another node agent serves there."""
        prepare_socket(self._options.socket)
        listener = _listen(self._options)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(self._admit, sock=listener, backlog=BACKLOG)

    def shut(self) -> None:
        """Nobody comes in any more; who is inside stays."""
        if self._server:
            self._server.close()
            self._server = None
            self._options.socket.unlink(missing_ok=True)

    def close(self) -> None:
        self.shut()
        for connection in list(self._open.values()):
            connection.close()

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, number: int) -> bool:
        return number in self._open

    def caller(self, name: str) -> Peer:
        """Who is behind what gRPC calls a peer."""
        return self._by_name.get(name.removeprefix(ABSTRACT), UNKNOWN)

    def _admit(self) -> asyncio.Protocol:
        self._numbers += 1
        connection = Connection(self, self._options, self._numbers)
        return connection.outer

    # what connections tell

    def entered(self, connection: "Connection") -> bool:
        """Whether there is a place for it."""
        client = connection.peer.client
        if len(self._open) >= self._most:
            return connection.refuse("connections")
        if self._by_client[client] >= self._options.limits.per_client:
            return connection.refuse("client")
        self._open[connection.number] = connection
        self._by_client[client] += 1
        return True

    def named(self, name: str, peer: Peer) -> None:
        self._by_name[name] = peer

    def left(self, connection: "Connection") -> None:
        if self._open.pop(connection.number, None) is None:
            return
        self._by_name.pop(connection.name, None)
        client = connection.peer.client
        self._by_client[client] -= 1
        if not self._by_client[client]:
            del self._by_client[client]
        self._options.on_closed(connection.peer)


class Connection:
    """One client's connection, from its acceptance to its end."""

    def __init__(self, entrance: Entrance, options: EntranceOptions, number: int) -> None:
        self.number, self.name, self.peer = number, "", UNKNOWN
        self._entrance, self._options = entrance, options
        self.outer = _Greeted(options.limits.held, self._lost, self._spoke, self._made)
        self._inner = Half(options.limits.held, self._lost)
        self._inner.other = self.outer  # gRPC speaks at once, before the client's first bytes are through
        self._deadline: asyncio.TimerHandle | None = None
        self._passing: asyncio.Task[None] | None = None
        self._refused = False

    def refuse(self, why: str) -> bool:
        if not self._refused:
            self._refused = True
            self._options.on_refused(why, self.peer)
        self.outer.abort()
        return False

    def close(self) -> None:
        self.outer.close()
        self._inner.close()

    def _made(self) -> None:
        transport = self.outer.transport
        if transport is None:
            return
        try:
            self.peer = peer_of(transport.get_extra_info("socket"), f"connection-{self.number}")
        except OSError:  # it has gone already
            self.outer.abort()
            return
        if self._entrance.entered(self):
            loop = asyncio.get_running_loop()
            self._deadline = loop.call_later(self._options.limits.preface_s, self.refuse, "silent")

    def _spoke(self, outer: Outer) -> None:
        if self._deadline:
            self._deadline.cancel()
        self._passing = asyncio.get_running_loop().create_task(self._pass())

    async def _pass(self) -> None:
        private = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            private.setblocking(False)
            private.bind("")  # the kernel gives it a name that nobody else has
            self.name = bytes(private.getsockname()).lstrip(b"\0").decode()
            self._entrance.named(self.name, self.peer)
            loop = asyncio.get_running_loop()
            async with asyncio.timeout(CONNECT_S):
                await loop.sock_connect(private, str(self._options.private))
            await loop.create_unix_connection(lambda: self._inner, sock=private)
        except (OSError, TimeoutError):
            private.close()
            self.refuse("broken")
            return
        if self.outer.transport is None or self.outer.transport.is_closing():
            self._inner.close()
        else:
            self.outer.through(self._inner)

    def _lost(self) -> None:
        if self._deadline:
            self._deadline.cancel()
        if not self.outer.spoke and self.outer.said and not self._refused:
            self._options.on_refused("garbage", self.peer)
            self._refused = True
        if self.number in self._entrance:
            asyncio.get_running_loop().call_later(LAST_BYTES_S, self._abort)
        self._entrance.left(self)

    def _abort(self) -> None:
        """One side has gone and the other one does not take the last bytes: its descriptor must not stay for ever."""
        self.outer.abort()
        self._inner.abort()


class _Greeted(Outer):
    """Says when it was accepted."""

    def __init__(
        self,
        held: int,
        on_lost: Callable[[], None],
        on_preface: Callable[[Outer], None],
        on_made: Callable[[], None],
    ) -> None:
        super().__init__(held, on_lost, on_preface)
        self._on_made = on_made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._on_made()


def _listen(options: EntranceOptions) -> socket.socket:
    """A socket that is born with its mode, so nobody gets in before a chmod, and under another name, so that whoever
    sees it is answered."""
    born = options.socket.with_name(BORN)
    remove_socket(born)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    old = os.umask(0o777 & ~options.mode)
    try:
        listener.bind(str(born))
    finally:
        os.umask(old)
    if options.group >= 0:
        os.chown(born, -1, options.group)
        let_group_in(options.socket.parent, options.group)
    listener.listen(BACKLOG)
    listener.setblocking(False)
    born.rename(options.socket)
    return listener


def _affordable() -> int:
    """How many connections the process's limit of open files allows, raised as far as it may be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and (hard == resource.RLIM_INFINITY or soft < hard):
        wanted = EntranceLimits().connections * FILES_EACH + OTHER_FILES
        soft = max(soft, wanted if hard == resource.RLIM_INFINITY else min(hard, wanted))
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(16, (soft - OTHER_FILES) // FILES_EACH)
