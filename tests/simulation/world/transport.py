"""One end of a stream: ordered, cut into pieces as drawn, with back-pressure, closed in good order or reset."""

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.simulation.world.identity import Credentials
from tests.simulation.world.network import Factory, Network

if TYPE_CHECKING:
    from tests.simulation.world.process import Process


class SimTransport(asyncio.Transport):
    """What is written arrives at `peer` later; `flying` are the bytes that it has not read."""

    peer: "SimTransport"

    def __init__(self, network: Network, process: "Process", address: str) -> None:
        super().__init__()
        self.network, self.process, self.address = network, process, address
        self.has_ways = address.startswith("tcp:")
        """True where a way between two processes may be closed."""
        self.protocol: Any = None
        self.closing = self.lost = self.eof_sent = self.paused = False
        self.reading = False
        self.certificate: dict[str, Any] | None = None
        """The peer's."""
        self.last = 0.0
        """When the piece sent last arrives: none overtakes another."""
        self.held: list[tuple[SimTransport, bytes]] = []
        self.severed = self.torn = False
        """Severed: what is sent is lost unheard. Torn: the next piece to arrive is cut short by a reset."""
        self.slow_until = 0.0
        """The world's time up to which it hands over a piece now and then only."""
        self.flying = 0
        self.high, self.low = network.high, network.high // 4
        process.ends[self] = None

    def attach(self, protocol: Any) -> None:
        """Begin: what has arrived by now is handed to the protocol."""
        self.protocol = protocol
        protocol.connection_made(self)
        if not self.reading:
            self.resume_reading()

    def write(self, data: Any) -> None:
        if self.closing or self.eof_sent or not data:
            return
        data = bytes(data)
        self.flying += len(data)
        if not self.paused and self.flying > self.high + self.network.buffer:
            self.paused = True
            self.protocol.pause_writing()
        chance, share = self.network.chance, self.network.cut_share
        while share and len(data) > 1 and chance.random() < share:
            size = chance.randint(1, len(data))
            self._send(data[:size])
            data = data[size:]
        if data:
            self._send(data)

    def writelines(self, lines: Any) -> None:
        self.write(b"".join(lines))

    def _send(self, piece: bytes) -> None:
        self._later(partial(self.peer.arrive, self, piece))

    def _later(self, work: Any) -> None:
        world, peer = self.process.world, self.peer
        if self.severed:
            return
        arrives = world.now + world.latency()
        if arrives < self.last:
            arrives = self.last
        if self.has_ways and (opens := self.network.open_at(self.process.name, peer.process.name)) > arrives:
            arrives = opens
        self.last = arrives
        world.at_time(arrives, peer.process, work)

    def arrive(self, sender: "SimTransport", piece: bytes) -> None:
        """Hand a piece to the protocol. Runs in a turn of the reader's process."""
        if self.lost or self.closing:
            return
        if not self.reading or self.held or self.slow_until:
            self.held.append((sender, piece))
        else:
            self._take(sender, piece)

    def _take(self, sender: "SimTransport", piece: bytes) -> None:
        if not piece:
            self._end_of_file()
            return
        world, torn = self.process.world, self.torn
        if torn:
            piece = piece[: int(world.random("faults/tear").random() * len(piece))]
        world.trace.message(world.now, sender.process.pid, self.process.pid, piece)
        if piece:
            self._deliver(piece)
        sender.landed(len(piece))
        if torn:
            self.reset()
            world.at(0, sender.process, sender.reset)

    def _deliver(self, piece: bytes) -> None:
        protocol = self.protocol
        if not isinstance(protocol, asyncio.BufferedProtocol):
            protocol.data_received(piece)
            return
        while piece:
            room: Any = protocol.get_buffer(len(piece))
            size = min(len(room), len(piece))
            room[:size] = piece[:size]
            protocol.buffer_updated(size)
            piece = piece[size:]

    def landed(self, size: int) -> None:
        """The reader has taken so many bytes."""
        self.flying -= size
        if self.paused and self.flying <= self.low + self.network.buffer and self.process.alive and not self.closing:
            self.process.world.at(0, self.process, self._resume)

    def _resume(self) -> None:
        if self.paused and not self.closing and not self.lost:
            self.paused = False
            self.protocol.resume_writing()

    def is_reading(self) -> bool:
        return self.reading and not self.closing

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        if self.reading:
            return
        self.reading = True
        self.process.soon(self._catch_up)

    def _catch_up(self) -> None:
        while self.held and not self.slow_until and self.reading and not self.closing and self.protocol is not None:
            self._take(*self.held.pop(0))

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if not self.closing and not self.eof_sent:
            self.eof_sent = True
            self._tell_end()

    def _tell_end(self) -> None:
        peer = self.peer
        self._later(lambda: peer.end_of_file(self))

    def end_of_file(self, sender: "SimTransport") -> None:
        """The other end writes no more. Runs in a turn of this process."""
        if self.lost or self.closing:
            return
        if not self.reading or self.held or self.slow_until:
            self.held.append((sender, b""))
        else:
            self._end_of_file()

    def _end_of_file(self) -> None:
        if not self.protocol.eof_received():
            self.close()

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        """Close after what was written has arrived."""
        if not self.closing:
            if not self.eof_sent:
                self.eof_sent = True
                self._tell_end()
            self._finish(None)

    def abort(self) -> None:
        self.close()

    def _finish(self, error: BaseException | None) -> None:
        self.closing = True
        self.process.ends.pop(self, None)
        if self.process.alive:
            self.process.soon(lambda: self._lost(error))

    def _lost(self, error: BaseException | None) -> None:
        if not self.lost:
            self.lost = True
            if self.protocol is not None:
                self.protocol.connection_lost(error)

    def die(self) -> None:
        """The kernel closes it: the peer reads to the end, or is reset if something lay here unread."""
        if not self.closing:
            self.closing = True
            peer = self.peer
            if self.held or self.network.chance.random() < 0.3:
                self._later(peer.reset)
            else:
                self._later(lambda: peer.end_of_file(self))

    def reset(self) -> None:
        """Break the connection at this end, whatever was on its way. Runs in a turn of this process."""
        if not self.closing:
            self._finish(ConnectionResetError(104, "Connection reset by peer"))

    def cut(self) -> None:
        """Break the connection in the middle of what is on its way. Runs in no process."""
        for end in (self, self.peer):
            end.process.world.at(0, end.process, end.reset)

    def sever(self, until: float) -> None:
        """Lose all that both ends send, until both give up: the connection is half-open. Runs in no process."""
        self.severed = self.peer.severed = True
        self.process.world.at_time(until, None, self.cut)

    def read_slowly(self, until: float, pause: float) -> None:
        """Hand over one piece after each pause. Runs in no process."""
        if not self.slow_until:
            self.slow_until = until
            self.process.world.at(pause, self.process, lambda: self._sip(pause))

    def _sip(self, pause: float) -> None:
        world = self.process.world
        if self.closing:
            return
        if world.now >= self.slow_until:
            self.slow_until = 0.0
            self._catch_up()
            return
        if self.held and self.reading and self.protocol is not None:
            self._take(*self.held.pop(0))
        world.at(pause, self.process, lambda: self._sip(pause))

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "peercert":
            return self.certificate
        if name in ("peername", "sockname"):
            return ("127.0.0.1", 40_000) if self.address.startswith("tcp:") else ""
        return default

    def get_protocol(self) -> asyncio.BaseProtocol:
        found: asyncio.BaseProtocol = self.protocol
        return found

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.high = high if high is not None else 4 * low if low is not None else self.network.high
        self.low = low if low is not None else self.high // 4

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self.low, self.high

    def get_write_buffer_size(self) -> int:
        return max(0, self.flying - self.network.buffer)


async def connect(
    network: Network, process: "Process", address: str, factory: Factory, credentials: Any = None
) -> tuple[Any, Any]:
    """Connect to who listens there. Raises ConnectionRefusedError."""
    world = process.world
    await asyncio.sleep(world.latency())
    listening = network.find(address)
    if listening is not None and address.startswith("tcp:"):
        opens = network.open_at(process.name, listening.process.name)
        await asyncio.sleep(max(0.0, opens - world.now) + world.latency())
        listening = network.find(address)
    if listening is None:
        raise ConnectionRefusedError(111, f"Connect call failed {address}")
    near = SimTransport(network, process, address)
    far = SimTransport(network, listening.process, address)
    near.peer, far.peer = far, near
    if isinstance(credentials, Credentials):
        far.certificate = credentials.certificate()
    near.attach(factory())
    if network.reset_share and network.chance.random() < network.reset_share:
        far.die()
        near.reset()
    else:
        world.at(0, listening.process, lambda: listening.arrive(far))
    await asyncio.sleep(0)  # as asyncio does: what comes at once is heard before the caller has the connection
    return near, near.protocol
