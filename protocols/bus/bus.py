"""The bus of one process: what it owns and serves, what it follows and calls. Everything runs in one event loop."""

import asyncio
import fcntl
import logging
import os
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from protocols.bus.channel import Counters, Garbage, Sockets
from protocols.bus.errors import BusNotStarted, FrameInvalid, Internal, NameTaken
from protocols.bus.follower import FollowerOptions
from protocols.bus.following import Following, FollowingOptions
from protocols.bus.frames import body_of, value_of
from protocols.bus.host import Host
from protocols.bus.peer import Peer
from protocols.bus.stream import Stream
from protocols.bus.types import BusOptions, Handler, StreamSink, StreamSource, Value

EPOCH_LIMIT = 2**62


class NameLock:
    """Holds RUN/NAME.lock; the file says `PID EPOCH`. The kernel frees it when the process dies, however it dies."""

    def __init__(self, run_dir: Path, name: str) -> None:
        self._path = run_dir / f"{name}.lock"
        self._name = name
        self._descriptor = -1

    def take(self) -> int:
        """Take the lock and return this life's epoch, larger than that of any life before. Raises NameTaken."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder, _ = _read(descriptor)
            os.close(descriptor)
            raise NameTaken(
                f"{self._name} is running already as pid {holder} ({self._path}); stop it or use another --root"
            ) from None
        epoch = max(time.time_ns(), _read(descriptor)[1] + 1)
        text = f"{os.getpid()} {epoch}\n".encode()
        os.pwrite(descriptor, text, 0)
        os.ftruncate(descriptor, len(text))
        self._descriptor = descriptor
        return epoch

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _read(descriptor: int) -> tuple[int, int]:
    """(pid, epoch) of the file's last holder; zeros when it holds something else."""
    words = os.pread(descriptor, 64, 0).split()
    try:
        pid, epoch = int(words[0]), int(words[1])
    except (IndexError, ValueError):
        return 0, 0
    return (pid, epoch) if 0 <= epoch < EPOCH_LIMIT else (pid, 0)


CALM_AFTER = 5
"""Ticks in a row with nothing new before they become seldom: starts and bursts are told of at the usual pace."""
SLACK = 1.1


class Tempo:
    def __init__(self, tick: float, idle_tick: float) -> None:
        self._tick = tick
        self._idle_tick = max(tick, idle_tick)
        self._seen = 0
        self._calm = 0

    @property
    def idle(self) -> bool:
        return self._calm >= CALM_AFTER

    def next(self, pulse: "Pulse") -> float:
        """Seconds to the next tick, which is due at a multiple of them."""
        restless = pulse.moved != self._seen or pulse.waiting or pulse.silence > self._idle_tick * SLACK
        self._seen = pulse.moved
        self._calm = 0 if restless else self._calm + 1
        return self._idle_tick if self.idle else self._tick


class Pulse(msgspec.Struct, frozen=True):
    """What is looked at with each tick."""

    moved: int
    """Grows with each position of the streams owned and each change of what the beats say."""
    waiting: bool
    """A call waits for an answer: its callee is pinged once a tick."""
    silence: float
    """Seconds since the owner that was heard the longest ago told a position; one that is late is looked for soon."""


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
