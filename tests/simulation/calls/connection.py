"""One connection between a channel and a server: messages in order each way, late, held back, or lost with it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import grpc

if TYPE_CHECKING:
    from tests.simulation.calls.server import SimServer
    from tests.simulation.calls.sockets import Sockets
    from tests.simulation.world.process import Process

CLOSED = (grpc.StatusCode.UNAVAILABLE, "Socket closed")
TORN = (grpc.StatusCode.CANCELLED, "CANCELLED")
"""What some calls end with whose server died in the middle of a message."""
TORN_SHARE = 0.1


class Client(Protocol):
    """The channel's side of a connection."""

    def connected(self, connection: "Connection") -> None: ...
    def disconnected(self, connection: "Connection") -> None: ...


class _End:
    """What a process holds of a connection."""

    def __init__(self, connection: "Connection", process: "Process") -> None:
        self.connection, self.process = connection, process
        self.last = 0.0
        process.ends[self] = None

    def die(self) -> None:
        self.connection.lost_by(self)

    def cut(self) -> None:
        """Stand for a fault of the connection. Runs in no process."""
        self.connection.cut()


class Connection:
    """Calls are numbered; each side keeps its own by number and hears when the connection is gone."""

    def __init__(self, sockets: "Sockets", process: "Process", server: "SimServer", client: Client) -> None:
        self.sockets, self.server, self.client = sockets, server, client
        self.alive = True
        self.here, self.there = _End(self, process), _End(self, server.process)
        self.to_server(b"", lambda: self._accept())

    def _accept(self) -> None:
        """The server's first turn with it: only its settings tell the client that somebody is there."""
        self.server.accepted(self)
        self.to_client(b"", lambda: self.client.connected(self))

    def to_server(self, data: bytes, work: Callable[[], object]) -> None:
        self._send(self.here, self.there, data, work)

    def to_client(self, data: bytes, work: Callable[[], object]) -> None:
        self._send(self.there, self.here, data, work)

    def _send(self, sender: _End, receiver: _End, data: bytes, work: Callable[[], object]) -> None:
        if not self.alive:
            return
        world = self.sockets.world
        opens = self.sockets.open_at(sender.process.name, receiver.process.name)
        sender.last = max(sender.last, world.now + world.latency(), opens)
        world.trace.message(world.now, sender.process.pid, receiver.process.pid, data)
        world.at_time(sender.last, receiver.process, lambda: self.alive and work())

    def close(self) -> None:
        """Close it by its client: what was sent before still arrives."""
        if self.alive:
            self.to_server(b"", self._closed_by_client)

    def _closed_by_client(self) -> None:
        self._forget()
        self.server.disconnected(self)

    def close_by_server(self) -> None:
        """Close it by its server: what was sent before still arrives."""
        if self.alive:
            self.to_client(b"", self._closed_by_server)

    def _closed_by_server(self) -> None:
        self._forget()
        self.client.disconnected(self)

    def cut(self) -> None:
        """Reset it, with all that is on its way. Runs in no process."""
        if self.alive:
            self._forget()
            self._tell_client()
            self._tell_server()
            self.sockets.on_spoilt(self.server.process.name)

    def lost_by(self, end: _End) -> None:
        """The other side hears of the death of one a little later."""
        if self.alive:
            self._forget()
            if end is self.here:
                self._tell_server()
            else:
                self._tell_client()

    def _forget(self) -> None:
        self.alive = False
        for end in (self.here, self.there):
            end.process.ends.pop(end, None)

    def _tell_client(self) -> None:
        world = self.sockets.world
        world.at(world.latency(), self.here.process, lambda: self.client.disconnected(self))

    def _tell_server(self) -> None:
        world = self.sockets.world
        world.at(world.latency(), self.there.process, lambda: self.server.disconnected(self))

    def ending(self) -> tuple[grpc.StatusCode, str]:
        """Draw how a call ends whose connection is lost."""
        return TORN if self.sockets.chance.random() < TORN_SHARE else CLOSED
