"""The serving side of a bus: the PUB and ROUTER bound under the name's lock, the owned streams, the methods."""

import asyncio

from protocols.bus.channel import Channel, Counters, Garbage, Publisher, Routed, Sockets
from protocols.bus.errors import AlreadyExists
from protocols.bus.frames import (
    TICK_TOPIC,
    UNDECODABLE,
    VERSION,
    BusyFrame,
    CastFrame,
    Chunk,
    MoreFrame,
    PongFrame,
    RequestFrame,
    SyncFrame,
    TickFrame,
    decode_asked,
    encode,
)
from protocols.bus.service import BusService
from protocols.bus.stream import Stream, SyncDesk
from protocols.bus.types import BusOptions, StreamSource

REPLY_LINGER_MS = 200


class Host:
    """All that an instance serves under its name: owned streams, ticks, answers to syncs, RPC methods."""

    def __init__(self, options: BusOptions, epoch: int, sockets: Sockets, counters: Counters, garbage: Garbage) -> None:
        self.epoch = epoch
        self.streams: dict[str, Stream] = {}
        self._ended = -1
        """Highest last seq of streams disowned in this epoch: numbers of new ones follow it, so that no follower of one
        that is owned again takes an old position for a new one."""
        self._options = options
        self._counters = counters
        self._garbage = garbage
        self._loop = asyncio.get_running_loop()
        self._desk = SyncDesk()
        self._tick_due = False
        self._positions: dict[str, tuple[int, int]] = {}
        self._tick = b""
        """The encoded tick with these positions."""
        self.changes = 0
        """Number of ticks with a new position."""
        self._proofs: set[Stream] = set()
        self._publisher: Publisher = sockets.publisher(options.name)
        self._router: Channel[Routed] = sockets.router(options.name, self._on_batch)
        self.service = BusService(options.handlers, self._router.send_to, counters, garbage)
        self.service.epoch = epoch

    def own(self, name: str, source: StreamSource, ring: int, mark: int) -> Stream:
        if name in self.streams:
            raise AlreadyExists(f"stream {name} is owned already")
        stream = Stream(name, source, ring, self._publisher.send)
        stream.epoch = self.epoch
        stream.seq = self._ended + 1
        stream.mark = mark
        self.streams[name] = stream
        self.tick()
        return stream

    def disown(self, name: str) -> None:
        stream = self.streams.pop(name, None)
        if stream is not None:
            self._ended = max(self._ended, stream.seq)
            self._proofs.discard(stream)

    def tick(self) -> None:
        """Send one tick at the end of this turn of the loop, however often it is requested."""
        if not self._tick_due:
            self._tick_due = True
            self._loop.call_soon(self._send_tick)

    def on_tick(self) -> None:
        self._send_tick()
        self._desk.expire(self._loop.time())
        self.service.on_tick()

    async def close(self) -> None:
        await self.service.close()
        self._publisher.close()
        self._router.close(REPLY_LINGER_MS)

    def _send_tick(self) -> None:
        self._tick_due = False
        if not self.streams:
            return  # without streams there are no followers
        positions = {name: (stream.seq, stream.mark) for name, stream in self.streams.items()}
        if positions != self._positions:
            self.changes += 1
            self._positions = positions
            self._tick = TICK_TOPIC + encode(TickFrame(VERSION, self.epoch, positions))
        self._publisher.send(self._tick)

    def _prove(self, stream: Stream) -> None:
        """Send a tick on the stream's own topic soon: it proves to a follower that its subscription works."""
        if not self._proofs:
            self._loop.call_soon(self._send_proofs)
        self._proofs.add(stream)

    def _send_proofs(self) -> None:
        proofs, self._proofs = self._proofs, set()
        for stream in proofs:
            tick = TickFrame(VERSION, self.epoch, {stream.name: (stream.seq, stream.mark)})
            self._publisher.send(stream.topic + encode(tick))

    def _on_batch(self, batch: list[Routed]) -> None:
        for peer, data in batch:
            self._on_asked(peer, data)

    def _on_asked(self, peer: bytes, data: bytes) -> None:
        try:
            frame = decode_asked(data)
        except UNDECODABLE as error:
            self._garbage.note(f"connection {peer.hex()}", error)
            return
        if isinstance(frame, RequestFrame):
            self.service.request(peer, frame)
        elif isinstance(frame, CastFrame):
            self.service.cast(frame)
        elif isinstance(frame, SyncFrame):
            self._sync(peer, frame)
        elif isinstance(frame, MoreFrame):
            self._reply(peer, frame.stream, self._desk.more(peer, frame, self._loop.time()))
        else:
            self._router.send_to(peer, encode(PongFrame(VERSION, self.epoch)))

    def _sync(self, peer: bytes, frame: SyncFrame) -> None:
        stream = self.streams.get(frame.stream)
        try:
            answers = self._desk.sync(peer, frame, stream, self._loop.time())
        except Exception as error:
            self._fault(error)
            return
        self._reply(peer, frame.stream, answers)
        if stream:
            self._prove(stream)

    def _reply(self, peer: bytes, stream: str, answers: list[Chunk | BusyFrame]) -> None:
        for answer in answers:
            if not self._router.send_to(peer, encode(answer)):
                self._counters.unsent += 1
                self._desk.unsent(peer, stream)
                return

    def _fault(self, error: Exception) -> None:
        """Report an exception of a source, which is a bug of this actor."""
        if self._options.on_fault is None:
            raise error
        self._options.on_fault(error)
