"""The bus of one process: what it owns and serves, what it follows and calls. Everything runs in one event loop."""

import asyncio
import logging
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import msgspec

from protocols.bus.bodies import body_of, value_of
from protocols.bus.channel import Sockets
from protocols.bus.counters import Counters, Garbage
from protocols.bus.errors import BusNotStarted, FrameInvalid, Internal, NameTaken
from protocols.bus.follower import FollowerOptions
from protocols.bus.following import Following, FollowingOptions
from protocols.bus.host import Host
from protocols.bus.lock import NameLock
from protocols.bus.peer import Peer
from protocols.bus.stream import Stream
from protocols.bus.tempo import Pulse, Tempo
from protocols.bus.types import BusOptions, Handler, StreamSink, StreamSource, Value

log = logging.getLogger("bus")
V = TypeVar("V")
R = TypeVar("R")
Q = TypeVar("Q")
LOOKS, LOOK_S = 50, 0.01


class Bus:
    """Owner of streams, server and caller of methods, follower of others. Use it in the loop that ran start()."""

    def __init__(self, options: BusOptions) -> None:
        self.options = options
        self.epoch = 0
        """Of this life: larger than that of any earlier life of the same name. 0 for a client-only bus."""
        self.counters = Counters()
        self._garbage = Garbage(self.counters)
        self._lock = NameLock(options.run_dir, options.name)
        self._client = uuid.uuid4().hex
        self._sockets: Sockets | None = None
        self._host: Host | None = None
        self._peers: dict[str, Peer] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._told_synced: Callable[[], None] = _nobody
        self._each_tick: Callable[[], None] = _nobody
        self._tempo = Tempo(options.tick, options.idle_tick)
        self._stirred = 0

    async def start(self) -> None:
        """Take the name and bind. Raises NameTaken when another process holds it."""
        self.options.run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.options.name:
            self.epoch = await self._take_name()
        try:
            self._sockets = Sockets(self.options.run_dir)
            if self.options.name:
                self._host = Host(self.options, self.epoch, self._sockets, self.counters, self._garbage)
        except BaseException:
            self._lock.release()
            raise
        self._set_timer(self.options.tick)

    async def _take_name(self) -> int:
        """Whoever only looks whether it is held, holds it for a moment."""
        for _ in range(LOOKS):
            with suppress(NameTaken):
                return self._lock.take()
            await asyncio.sleep(LOOK_S)
        return self._lock.take()

    async def close(self) -> None:
        """End handlers and calls, close sockets, then give the name free: in this order, so that no successor's socket
        files are removed by us."""
        sockets, self._sockets = self._sockets, None
        if self._timer:
            self._timer.cancel()
        for peer in self._peers.values():
            peer.close()
        self._peers.clear()
        if self._host:
            await self._host.close()
            self._host = None
        if sockets:
            await asyncio.to_thread(sockets.term)
        if sockets and self.epoch:
            sockets.remove_files(self.options.name)
        self._lock.release()

    def own(self, name: str, source: StreamSource, ring: int = 4096, mark: int = 0) -> Stream:
        """Become the owner of a stream; do it when `source` can tell its state. `ring`: newest events kept for
        followers that missed some. `mark`: the durable position the state stands at."""
        return self._own_host().own(name, source, ring, mark)

    def disown(self, name: str) -> None:
        """Stop owning a stream; nothing happens when it is not owned. Its followers become stale, until it is owned
        again or they stop following."""
        self._own_host().disown(name)

    def tick(self) -> None:
        """Tell all followers soon where the streams are; done with each tick anyway."""
        self._own_host().tick()

    def follow(self, *, owner: str, stream: str, sink: StreamSink[V], type: type[V]) -> Following[V]:
        """Keep `sink` up to date with another instance's stream, through its restarts and ours."""
        peer = self._peer(owner)
        options = FollowingOptions(
            owner=owner,
            stream=stream,
            type=type,
            follower=FollowerOptions(
                stream=stream, buffer_events=self.options.buffer_events, stale_after=self.options.stale_after
            ),
            send=peer.send,
            garbage=self._garbage.note,
            fault=self._fault,
            told=self._synced_changed,
        )
        following = Following(options, sink)
        peer.follow(following)
        return following

    def unfollow(self, following: Following[V]) -> None:
        """The sink hears nothing more, from the moment of this call on."""
        self._peer(following.owner).unfollow(following)

    def serve(self, method: str, type: type[Q], handler: Handler[Q]) -> None:
        """Answer `method`. The handler runs as a task and is cancelled at the caller's deadline."""
        self._own_host().service.serve(method, type, handler)

    async def call(
        self,
        owner: str,
        method: str,
        request: msgspec.Struct,
        reply: type[R],
        *,
        timeout: float = 10.0,
        idempotent: bool = False,
    ) -> R:
        """Ask another instance. Raises a BusError: the handler's own, or Unavailable (not running, or died during a
        call that is not idempotent), or DeadlineExceeded (it runs and is slow)."""
        deadline = asyncio.get_running_loop().time() + timeout
        body = await self._peer(owner).call(method, body_of(request), deadline, idempotent)
        try:
            return value_of(body, reply)
        except FrameInvalid as error:
            raise Internal(f"{owner} answered {method} with something else: {error}") from None

    def cast(self, owner: str, method: str, request: Value) -> None:
        """Tell another instance, without an answer; dropped when it is away."""
        self._peer(owner).cast(method, body_of(request))

    def watch_link(self, owner: str, told: Callable[[bool], None]) -> None:
        """Call `told(True)` when a connection to `owner` is up (now, if it is), `told(False)` when it is lost."""
        self._peer(owner).watch(told)

    def watch_synced(self, told: Callable[[], None]) -> None:
        """Call `told` whenever a followed stream becomes synced or stale."""
        self._told_synced = told

    def each_tick(self, told: Callable[[], None]) -> None:
        """Call `told` with our tick: what else is due then costs no wake-up of its own."""
        self._each_tick = told

    @property
    def moves(self) -> int:
        """Ticks of ours that told something new."""
        return self._host.moves if self._host else 0

    def stir(self) -> None:
        """Something is going on here: ticks come at the usual pace for a while."""
        self._stirred += 1

    def owned(self) -> list[Stream]:
        return list(self._host.streams.values()) if self._host else []

    def followed(self) -> list[Following[object]]:
        return [following for peer in self._peers.values() for following in peer.followings()]

    def _own_host(self) -> Host:
        if self._host is None:
            raise BusNotStarted("this bus owns and serves nothing: it has no name, or it is not started")
        return self._host

    def _peer(self, name: str) -> Peer:
        peer = self._peers.get(name)
        if peer is None:
            if self._sockets is None:
                raise BusNotStarted("the bus is not started, or it is closed")
            peer = Peer(name, self._client, self._sockets, self.counters, self._garbage, self.options.stale_after)
            self._peers[name] = peer
        return peer

    def _second(self) -> None:
        """The only periodic work: our tick, and a look for silence of others."""
        pace = self.options.tick
        try:
            if self._host:
                self._host.second()
            pace = self._tempo.next(self._pulse())
            self._each_tick()
        finally:
            self._set_timer(pace)

    def _pulse(self) -> Pulse:
        now, peers = asyncio.get_running_loop().time(), list(self._peers.values())
        silence = max([peer.second(now) for peer in peers], default=0.0)
        return Pulse(self._stirred + self.moves, any(peer.waiting for peer in peers), silence)

    def _set_timer(self, pace: float) -> None:
        """At whole ticks of the machine's clock: what all tell each other then wakes each of them once, not once for
        every other."""
        loop = asyncio.get_running_loop()
        at = loop.time() + pace
        self._timer = loop.call_at(at - at % pace, self._second)

    def _synced_changed(self) -> None:
        self._told_synced()

    def _fault(self, error: BaseException) -> None:
        if self.options.on_fault:
            self.options.on_fault(error)
        else:
            log.error("a sink raised %s: %s", type(error).__name__, error, exc_info=error)


def _nobody() -> None:
    """Nobody watches."""
