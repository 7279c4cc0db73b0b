"""Addresses and links: who listens where, and which way between two processes is closed for a while."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.simulation.world.process import Process
    from tests.simulation.world.world import World

Factory = Callable[[], asyncio.BaseProtocol]


class Network:
    """All listeners and links of a world."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.listening: dict[str, list[Listening]] = {}
        """By address; several may share a port, as with SO_REUSEPORT."""
        self._closed: dict[tuple[str, str], float] = {}
        self.chance = world.random("streams")
        self.buffer = int(world.draw("socket_buffer", 256, 2048, 65_536, 212_992))
        """Bytes that the kernel holds for a reader."""
        self.high = int(world.draw("write_buffer", 512, 8192, 65_536))
        """Bytes that asyncio's transports hold before they pause the writer."""
        self.cut_share = world.draw("cut_share", 0.0, 0.1, 0.5, 0.02)
        """Share of writes that arrive in pieces."""
        self.reset_share = world.draw("reset_share", 0.0, 0.05, 0.01)
        """Share of connections that are reset before they are accepted: the listener's backlog ends with it."""

    def close_way(self, sender: str, receiver: str, until: float) -> None:
        """Hold back all that goes from one process to another, as a router that drops and a sender that repeats."""
        self._closed[sender, receiver] = until

    def open_at(self, sender: str, receiver: str) -> float:
        """Return the world's time from which on the way is open."""
        return self._closed.get((sender, receiver), 0.0) if self._closed else 0.0

    def find(self, address: str) -> "Listening | None":
        """Return a listener that lives, drawn among those that share the address."""
        alive = [each for each in self.listening.get(address, ()) if each.process.alive]
        if not alive:
            return None
        return alive[0] if len(alive) == 1 else alive[int(self.chance.random() * len(alive))]


class Listening:
    """A listening socket."""

    def __init__(self, network: Network, process: "Process", address: str) -> None:
        self.process, self.address = process, address
        self._network = network
        self._closed = False
        network.listening.setdefault(address, []).append(self)
        process.ends[self] = None

    def close(self) -> None:
        if not self._closed:
            self.process.ends.pop(self, None)
            self.die()

    def die(self) -> None:
        self._closed = True
        self._network.listening[self.address].remove(self)

    def arrive(self, far: Any) -> None:
        """Take a new connection's end, in a turn of the process."""
        raise NotImplementedError


class Server(Listening):
    """Stands for asyncio.Server."""

    def __init__(self, network: Network, process: "Process", address: str, factory: Factory) -> None:
        super().__init__(network, process, address)
        self._factory = factory

    def arrive(self, far: Any) -> None:
        if not far.closing:
            far.attach(self._factory())

    def is_serving(self) -> bool:
        return not self._closed

    async def start_serving(self) -> None: ...

    async def wait_closed(self) -> None: ...

    @property
    def sockets(self) -> tuple[Any, ...]:
        return ()
