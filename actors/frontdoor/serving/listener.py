"""The public unix socket: accept connections, identify their processes, and relay them to the gRPC server.

grpcio neither reports the credentials of a unix socket's peer nor serves an accepted connection. So this process
accepts, reads SO_PEERCRED, and relays the bytes to gRPC's private socket from a client socket with an autobind name.
gRPC reports that name as the call's peer, which leads back to the process.
"""

import asyncio
import os
import resource
import socket
import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec

from actors.frontdoor.serving.pacing import ClientShare, RequestGate
from actors.frontdoor.serving.relay import ClientEnd, ClientEndEvents, RelayEnd
from protocols.process.sockets import let_group_in, prepare_socket, remove_socket
from protocols.process.tasks import Tasks, report

BACKLOG = 1024
TEMPORARY_NAME = ".new"
FILES_PER_CONNECTION = 3
"""The client's socket and both ends of the private one."""
OTHER_FILES = 256
CONNECT_TIMEOUT_S = 5.0
LAST_BYTES_TIMEOUT_S = 5.0
ABSTRACT = "unix-abstract:"
CREDENTIALS = struct.Struct("3i")


class Peer(msgspec.Struct, frozen=True):
    """The process at the other end of a connection, as the kernel reports it.

    A process in a pid namespace that is invisible from ours has pid 0.
    """

    pid: int
    uid: int
    gid: int
    command: str = ""
    connection: str = ""
    """Unique id of the connection."""

    @property
    def client(self) -> str:
        """Key that rate and connection limits are counted by."""
        return f"{self.pid}/{self.uid}" if self.pid else self.connection

    def __str__(self) -> str:
        return f"pid={self.pid} uid={self.uid} gid={self.gid} command={self.command or '?'}"


UNKNOWN_PEER = Peer(0, -1, -1)


class SocketOptions(msgspec.Struct, frozen=True):
    """Sockets of an endpoint, and the rights to the public one."""

    public: Path
    private: Path
    """Path at which the gRPC server listens."""
    mode: int = 0o600
    group: int = -1
    """Group id of the public socket and its directory; -1 = the process's own."""


class ConnectionLimits(msgspec.Struct, frozen=True):
    """Bounds of the connections of one socket."""

    total: int = 4096
    """Open connections of all clients; fewer if RLIMIT_NOFILE does not allow as many."""
    per_client: int = 256
    preface_timeout_s: float = 10.0
    buffer_bytes: int = 65536
    """Bytes buffered for an end that does not read, before the other end is not read from."""


class ListenerOptions(msgspec.Struct, frozen=True):
    """Socket, bounds, and who is called when a connection ends or is rejected."""

    socket: SocketOptions
    limits: ConnectionLimits
    on_rejected: Callable[[str, Peer], None]
    """Called with the reason: `connections`, `client`, `silent`, `garbage` or `broken`."""
    on_closed: Callable[[Peer], None]


class Listener:
    """Open connections by client; `peer` finds the process behind a call."""

    def __init__(self, options: ListenerOptions) -> None:
        self._options = options
        self._max_connections = min(options.limits.total, _raise_file_limit())
        self._open: dict[int, ClientConnection] = {}
        self._peers_by_name: dict[str, Peer] = {}
        self._open_by_client: Counter[str] = Counter()
        self._shares: dict[str, ClientShare] = {}
        self._server: asyncio.Server | None = None
        self._last_number = 0

    async def start(self) -> None:
        """Raises SocketInUse if another process serves the socket."""
        prepare_socket(self._options.socket.public)
        listening = _listen(self._options.socket)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(self._accept, sock=listening, backlog=BACKLOG)

    def stop_accepting(self) -> None:
        """Remove the socket; open connections stay."""
        if self._server:
            self._server.close()
            self._server = None
            self._options.socket.public.unlink(missing_ok=True)

    def close(self) -> None:
        self.stop_accepting()
        for connection in list(self._open.values()):
            connection.close()

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, number: int) -> bool:
        return number in self._open

    def peer(self, grpc_peer: str) -> Peer:
        """Return the process behind `ServicerContext.peer()`."""
        return self._peers_by_name.get(grpc_peer.removeprefix(ABSTRACT), UNKNOWN_PEER)

    def _accept(self) -> asyncio.Protocol:
        self._last_number += 1
        connection = ClientConnection(self, self._options, self._last_number)
        return connection.client_end

    # called by connections

    def register(self, connection: "ClientConnection") -> bool:
        """Count a connection whose peer is known; reject it and return False if it is over a limit."""
        client = connection.peer.client
        if len(self._open) >= self._max_connections:
            connection.reject("connections")
            return False
        if self._open_by_client[client] >= self._options.limits.per_client:
            connection.reject("client")
            return False
        self._open[connection.number] = connection
        self._open_by_client[client] += 1
        connection.share = self._shares.setdefault(client, connection.share)
        return True

    def register_name(self, name: str, peer: Peer) -> None:
        self._peers_by_name[name] = peer

    def unregister(self, connection: "ClientConnection") -> None:
        if self._open.pop(connection.number, None) is None:
            return
        self._peers_by_name.pop(connection.name, None)
        client = connection.peer.client
        self._open_by_client[client] -= 1
        if not self._open_by_client[client]:
            del self._open_by_client[client]
            self._shares.pop(client, None)
        self._options.on_closed(connection.peer)


class ClientConnection:
    """One client connection from accept to close. `name` is its address on the private socket."""

    def __init__(self, listener: Listener, options: ListenerOptions, number: int) -> None:
        self.number, self.name, self.peer = number, "", UNKNOWN_PEER
        self._listener, self._options = listener, options
        events = ClientEndEvents(self._on_accepted, self._on_preface, self._on_lost)
        self.client_end = ClientEnd(options.limits.buffer_bytes, events)
        self._server_end = RelayEnd(options.limits.buffer_bytes, self._on_lost)
        # gRPC sends its settings at once, before the client's first bytes have been relayed.
        self._server_end.other = self.client_end
        self.share = ClientShare()
        """The share of the client, common to its connections."""
        self._preface_timer: asyncio.TimerHandle | None = None
        self._tasks = Tasks(self._broken)
        self._rejected = False

    def reject(self, reason: str) -> None:
        if not self._rejected:
            self._rejected = True
            self._options.on_rejected(reason, self.peer)
        self.client_end.abort()

    def close(self) -> None:
        self.client_end.close()
        self._server_end.close()

    def _on_accepted(self) -> None:
        transport = self.client_end.transport
        if transport is None:
            return
        try:
            self.peer = _peer_of(transport.get_extra_info("socket"), f"connection-{self.number}")
        except OSError:  # the client has closed already
            self.client_end.abort()
            return
        if self._listener.register(self):
            loop = asyncio.get_running_loop()
            self._preface_timer = loop.call_later(self._options.limits.preface_timeout_s, self.reject, "silent")

    def _on_preface(self) -> None:
        if self._preface_timer:
            self._preface_timer.cancel()
        self._tasks.start(self._join(), "client connection")

    def _broken(self, name: str, error: BaseException) -> None:
        report(name, error)
        self.reject("broken")

    async def _join(self) -> None:
        self._server_end.gate = RequestGate(self.share, self._server_end.write, lambda: self.client_end.read(True))
        private = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            private.setblocking(False)
            private.bind("")  # autobind: the kernel picks a unique abstract name (unix(7))
            self.name = bytes(private.getsockname()).lstrip(b"\0").decode()
            self._listener.register_name(self.name, self.peer)
            loop = asyncio.get_running_loop()
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await loop.sock_connect(private, str(self._options.socket.private))
            await loop.create_unix_connection(lambda: self._server_end, sock=private)
        except (OSError, TimeoutError):
            private.close()
            self.reject("broken")
            return
        if self.client_end.transport is None or self.client_end.transport.is_closing():
            self._server_end.close()
        else:
            self.client_end.join(self._server_end)

    def _on_lost(self) -> None:
        if self._preface_timer:
            self._preface_timer.cancel()
        if not self.client_end.preface_seen and self.client_end.received and not self._rejected:
            self._options.on_rejected("garbage", self.peer)
            self._rejected = True
        if self.number in self._listener:
            # The remaining end may never take its last bytes; its descriptor must not stay open forever.
            asyncio.get_running_loop().call_later(LAST_BYTES_TIMEOUT_S, self._abort)
        self._listener.unregister(self)

    def _abort(self) -> None:
        self.client_end.abort()
        self._server_end.abort()


def _peer_of(connected: socket.socket, connection: str) -> Peer:
    raw = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    pid, uid, gid = CREDENTIALS.unpack(raw)
    return Peer(pid, uid, gid, _command(pid), connection)


def _command(pid: int) -> str:
    try:
        name = Path(f"/proc/{pid}/comm").read_text(errors="replace") if pid else ""
    except OSError:
        return ""
    # A process chooses its own name, and it is written to the log: keep harmless characters only.
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in name.strip())


def _listen(options: SocketOptions) -> socket.socket:
    """Return a listening socket that appears at its path with its final mode and group."""
    # Bind under another name with the mode in the umask, then rename: nobody connects before the mode is set, and
    # whoever sees the path gets an answer.
    temporary = options.public.with_name(TEMPORARY_NAME)
    remove_socket(temporary)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    old_umask = os.umask(0o777 & ~options.mode)
    try:
        listening.bind(str(temporary))
    finally:
        os.umask(old_umask)
    if options.group >= 0:
        os.chown(temporary, -1, options.group)
        let_group_in(options.public.parent, options.group)
    listening.listen(BACKLOG)
    listening.setblocking(False)
    temporary.rename(options.public)
    return listening


def _raise_file_limit() -> int:
    """Raise the soft RLIMIT_NOFILE as far as needed and return how many connections it allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = ConnectionLimits().total * FILES_PER_CONNECTION + OTHER_FILES
    if soft == resource.RLIM_INFINITY:  # a negative number
        soft = needed
    elif hard == resource.RLIM_INFINITY or soft < hard:
        soft = max(soft, needed if hard == resource.RLIM_INFINITY else min(hard, needed))
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(16, (soft - OTHER_FILES) // FILES_PER_CONNECTION)
