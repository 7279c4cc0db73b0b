"""Stands for protocols/bus/channel.py: PUB, SUB, DEALER and ROUTER ends with ZeroMQ's losses.

- A PUB loses what a follower's pipe has no room for, and what was sent before the subscription arrived.
- A ROUTER names each connection afresh and forgets it with it; a DEALER without one sends nothing.
- Messages of one connection arrive in order; those that have arrived are handed on in one piece.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from protocols.bus import bus as bus_module
from protocols.bus.channel import BATCH

if TYPE_CHECKING:
    from tests.simulation.world.process import Process
    from tests.simulation.world.world import World

ROUTER_PIPE = 2_000


class BusEnds:
    """Who binds which address, over all processes; it begins with the machine's directory of sockets."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.bound: dict[str, SimChannel] = {}
        self.pipe = int(world.draw("pipe", 2, 20, 60, 2000))
        """Messages that a PUB holds for each follower."""
        self.lag: dict[str, float] = {}
        """Seconds that each message of a PUB takes longer to a process, by its name."""
        self.chance = world.random("bus")


class SimSockets:
    """Stands for protocols.bus.channel.Sockets."""

    def __init__(self, ends: BusEnds, process: "Process", run_dir: Path) -> None:
        self._ends, self._process, self._run_dir = ends, process, run_dir

    def publisher(self, name: str) -> "SimChannel":
        return self._bind(f"{self._run_dir}/{name}.pub")

    def router(self, name: str, receive: Callable[[Any], None]) -> "SimChannel":
        return self._bind(f"{self._run_dir}/{name}.rpc", receive)

    def dealer(self, name: str, receive: Callable[[Any], None], link: Callable[[bool], None]) -> "SimChannel":
        return self._connect(f"{self._run_dir}/{name}.rpc", receive, link)

    def subscriber(self, name: str, receive: Callable[[Any], None]) -> "SimChannel":
        return self._connect(f"{self._run_dir}/{name}.pub", receive, None)

    def term(self) -> None: ...

    def remove_files(self, name: str) -> None: ...

    def _bind(self, address: str, receive: Callable[[Any], None] | None = None) -> "SimChannel":
        end = self._ends.bound[address] = SimChannel(self._ends, self._process, address, receive)
        return end

    def _connect(
        self, address: str, receive: Callable[[Any], None], link: Callable[[bool], None] | None
    ) -> "SimChannel":
        end = SimChannel(self._ends, self._process, address, receive, link)
        end.connect()
        return end


class SimChannel:
    """One socket; `far` is the bound end that a connecting one has found, `clients` the connections of a bound one."""

    def __init__(
        self,
        ends: BusEnds,
        process: "Process",
        address: str,
        receive: Callable[[Any], None] | None = None,
        link: Callable[[bool], None] | None = None,
    ) -> None:
        self.ends, self.process, self.address = ends, process, address
        self.publishes = address.endswith(".pub")
        self.up = self.closed = False
        self.prefixes: tuple[bytes, ...] = ()
        """What it subscribes to."""
        self.far: SimChannel | None = None
        self.id = b""
        self.clients: dict[bytes, SimChannel] = {}
        self.flying: dict[SimChannel, int] = {}
        self._receive, self._link = receive, link
        self._last: dict[SimChannel, float] = {}
        self._inbox: list[Any] = []
        process.ends[self] = None

    def connect(self) -> None:
        """Find who is bound, or try again a little later."""
        if self.closed or self.far is not None:
            return
        world = self.process.world
        owner = self.ends.bound.get(self.address)
        if owner is None or owner.closed:
            world.at(self.ends.chance.uniform(0.01, 0.1), self.process, self.connect)
            return
        self.far = owner
        self.id = self.ends.chance.randbytes(16)
        owner.clients[self.id] = self
        if self._link is not None:
            world.at(world.latency(), self.process, lambda: self._set_link(True, owner))

    def _set_link(self, up: bool, owner: "SimChannel") -> None:
        if self.closed or (up and self.far is not owner) or up == self.up or self._link is None:
            return
        self.up = up
        self._link(up)

    def send(self, data: bytes, flags: int = 0) -> bool:
        """Send to the bound end, or to every follower."""
        if self.closed:
            return False
        data = bytes(data)
        if self.publishes:
            for client in list(self.clients.values()):
                if data.startswith(client.prefixes):
                    self._fly(client, data, data)
            return True
        return self.far is not None and self.up and self._fly(self.far, (self.id, data), data)

    def send_to(self, peer: bytes, data: bytes) -> bool:
        client = self.clients.get(peer)
        data = bytes(data)
        return client is not None and self._fly(client, data, data)

    def _fly(self, far: "SimChannel", message: Any, data: bytes) -> bool:
        flying = self.flying.get(far, 0)
        if far.closed or flying >= (self.ends.pipe if self.publishes else ROUTER_PIPE):
            return False
        world = self.process.world
        self.flying[far] = flying + 1
        lag = self.ends.lag.get(far.process.name, 0.0) if self.publishes else 0.0
        arrives = world.now + world.latency() + lag
        if (last := self._last.get(far, 0.0)) > arrives:
            arrives = last
        self._last[far] = arrives
        world.trace.message(world.now, self.process.pid, far.process.pid, data)
        world.at_time(arrives, None, partial(self._land, far, message))
        return True

    def _land(self, far: "SimChannel", message: Any) -> None:
        if far.closed:
            return
        far._inbox.append((self, message))
        if len(far._inbox) == 1:
            far.process.soon(far._take)

    def _take(self) -> None:
        if self.closed or self._receive is None:
            return
        taken, self._inbox = self._inbox[:BATCH], self._inbox[BATCH:]
        for sender, _ in taken:
            sender.flying[self] -= 1
        if self._inbox:
            self.process.loop.call_soon(self._take)
        if taken:
            self._receive([message for _, message in taken])

    def subscribe(self, topic: bytes) -> None:
        world = self.process.world
        world.at(world.latency(), None, lambda: self._subscribed(topic))

    def _subscribed(self, topic: bytes) -> None:
        if topic not in self.prefixes:
            self.prefixes += (topic,)

    def unsubscribe(self, topic: bytes) -> None:
        self.prefixes = tuple(prefix for prefix in self.prefixes if prefix != topic)

    def drain(self) -> None:
        self._take()

    def close(self, linger_ms: int = 0) -> None:
        if not self.closed:
            self.process.ends.pop(self, None)
            self.die()

    def die(self) -> None:
        """The other ends hear of it a little later."""
        world = self.process.world
        self.closed = True
        for client in self.clients.values():
            world.at(world.latency(), client.process, lambda c=client: c.disconnected(self))  # type: ignore[misc]
        if self.far is not None:
            self.far.clients.pop(self.id, None)

    def disconnected(self, owner: "SimChannel") -> None:
        """Lose the connection to a bound end, and look for one."""
        if self.far is owner and not self.closed:
            self.far = None
            owner.clients.pop(self.id, None)
            self._set_link(False, owner)
            self.connect()

    def cut(self) -> None:
        """Break the connection of a connecting end, with what is on its way. Runs in no process."""
        if self.far is not None:
            owner = self.far
            self.process.world.at(0, self.process, lambda: self.disconnected(owner))


class SimLock(bus_module.NameLock):
    """The real lock file; the kernel frees it with its process."""

    def __init__(self, process: "Process", run_dir: Path, name: str) -> None:
        super().__init__(run_dir, name)
        self._process = process

    def take(self) -> int:
        epoch = super().take()
        self._process.ends[self] = None
        return epoch

    def release(self) -> None:
        self._process.ends.pop(self, None)
        super().release()

    def die(self) -> None:
        super().release()
