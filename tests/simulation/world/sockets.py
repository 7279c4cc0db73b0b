"""Listening sockets and what they accept, for code that accepts by itself (protocols/serving/listener.py)."""

import itertools
import socket
from typing import TYPE_CHECKING, Any

from tests.simulation.world.network import Listening, Network
from tests.simulation.world.transport import SimTransport

if TYPE_CHECKING:
    from tests.simulation.world.process import Process
    from tests.simulation.world.world import World

_numbers = itertools.count(2_000)
LOWEST_DESCRIPTOR = 10


class SocketModule:
    """Stands for the module `socket` where a listener uses it."""

    AF_INET, AF_INET6 = socket.AF_INET, socket.AF_INET6
    IPPROTO_TCP, TCP_NODELAY = socket.IPPROTO_TCP, socket.TCP_NODELAY
    socket = socket.socket

    def __init__(self, world: "World") -> None:
        self._world = world

    def create_server(self, address: tuple[str, int], *, reuse_port: bool = False, **_: Any) -> "ListeningSocket":
        process, network = self._world.current, self._world.network
        assert process is not None
        where = f"tcp:{address[1]}"
        if not reuse_port and network.find(where) is not None:
            raise OSError(98, "Address already in use")
        return ListeningSocket(network, process, address)


class ListeningSocket(Listening):
    """Has a backlog, and a descriptor that is readable while somebody waits in it."""

    def __init__(self, network: Network, process: "Process", address: tuple[str, int]) -> None:
        super().__init__(network, process, f"tcp:{address[1]}")
        self._name = address
        self._number = next(_numbers)
        self._backlog: list[SimTransport] = []
        process.loop.listening[self._number] = self

    def fileno(self) -> int:
        return self._number

    def setblocking(self, flag: bool) -> None: ...

    def getsockname(self) -> tuple[str, int]:
        return self._name

    def arrive(self, far: Any) -> None:
        self._backlog.append(far)
        self.wake()

    def wake(self) -> None:
        """Call the reader in a later turn, as long as somebody waits."""
        if self._backlog:
            self.process.soon(self._readable)

    def _readable(self) -> None:
        reader = self.process.loop.readers.get(self._number)
        if reader is not None and self._backlog:
            reader()
            self.wake()

    def accept(self) -> tuple["AcceptedSocket", tuple[str, int]]:
        while self._backlog:
            far = self._backlog.pop(0)
            if not far.closing:
                return AcceptedSocket(far), ("127.0.0.1", 40_000)
        raise BlockingIOError(11, "Resource temporarily unavailable")

    def die(self) -> None:
        super().die()
        self.process.loop.listening.pop(self._number, None)
        for far in self._backlog:
            if self.process.alive:
                far.close()


class AcceptedSocket:
    """A connection before it has a protocol."""

    def __init__(self, far: SimTransport) -> None:
        self.far = far

    def fileno(self) -> int:
        """Return a number that tells how many connections are open, as the lowest free one does."""
        return LOWEST_DESCRIPTOR + sum(isinstance(end, SimTransport) for end in self.far.process.ends)

    def setblocking(self, flag: bool) -> None: ...
    def setsockopt(self, *_: Any) -> None: ...

    def close(self) -> None:
        self.far.close()
