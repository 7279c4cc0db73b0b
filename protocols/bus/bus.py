"""The bus of one process: owned and followed streams, served and called methods, all in one event loop.

`NameLock` keeps two processes from having one name; `TickInterval` decides how often a process reports its positions.
"""

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
from protocols.bus.peer import BusPeer
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
        """Take the lock and return a new epoch, larger than that of any earlier incarnation. Raises NameTaken."""
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


IDLE_AFTER = 5
"""Ticks in a row without a change before the idle interval applies."""
SLACK = 1.1


class TickInterval:
    """Choose the time to the next tick: rare while nothing changes, since each tick wakes all followers. Pure."""

    def __init__(self, tick: float, idle_tick: float) -> None:
        self._tick = tick
        self._idle_tick = max(tick, idle_tick)
        self._seen = 0
        self._unchanged = 0

    @property
    def idle(self) -> bool:
        return self._unchanged >= IDLE_AFTER

    def next(self, activity: "Activity") -> float:
        """Return the seconds to the next tick, which is due at a multiple of them."""
        busy = activity.changes != self._seen or activity.waiting or activity.silence > self._idle_tick * SLACK
        self._seen = activity.changes
        self._unchanged = 0 if busy else self._unchanged + 1
        return self._idle_tick if self.idle else self._tick


class Activity(msgspec.Struct, frozen=True):
    """Reasons for frequent ticks, sampled with each of them."""

    changes: int
    """Grows with each new position of an owned stream and each change of a heartbeat."""
    waiting: bool
    """A call waits for an answer: its callee is pinged once a tick."""
    silence: float
    """Longest time in seconds since a followed owner reported its positions; a late one is checked soon."""


log = logging.getLogger("bus")
V = TypeVar("V")
R = TypeVar("R")
Q = TypeVar("Q")
LOCK_TRIES, LOCK_RETRY_S = 50, 0.01


class Bus:
    """Owner of streams, server and caller of methods, follower of others. Use it in the loop that ran start()."""

    def __init__(self, options: BusOptions) -> None:
        self.options = options
        self.epoch = 0
        """Larger than the epoch of any earlier incarnation of the same name; 0 for a client-only bus."""
        self.counters = Counters()
        self._garbage = Garbage(self.counters)
        self._lock = NameLock(options.run_dir, options.name)
        self._client = uuid.uuid4().hex
        self._sockets: Sockets | None = None
        self._host: Host | None = None
        self._peers: dict[str, BusPeer] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._on_synced: Callable[[], None] = _nobody
        self._after_tick: Callable[[], None] = _nobody
        self._interval = TickInterval(options.tick, options.idle_tick)
        self._activity = 0

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
        """Retry for a while: a process that only checks whether the lock is held holds it for a moment."""
        for _ in range(LOCK_TRIES):
            with suppress(NameTaken):
                return self._lock.take()
            await asyncio.sleep(LOCK_RETRY_S)
        return self._lock.take()

    async def close(self) -> None:
        """End handlers and calls, close sockets, then release the name.

        In this order, so that we remove no socket files of a successor.
        """
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
            # Shielded: work that is cancelled while it waits for a thread never runs, and the context would stay open.
            await asyncio.shield(asyncio.to_thread(sockets.term))
        if sockets and self.epoch:
            sockets.remove_files(self.options.name)
        self._lock.release()

    def own(self, name: str, source: StreamSource, ring: int = 4096, mark: int = 0) -> Stream:
        """Become the owner of a stream; call it when `source` has its state.

        `ring` is the number of newest events retained for followers that missed some, `mark` the durable position of
        the state.
        """
        return self._own_host().own(name, source, ring, mark)

    def disown(self, name: str) -> None:
        """Stop owning a stream; nothing happens when it is not owned.

        Its followers become stale, until it is owned again or they stop following.
        """
        self._own_host().disown(name)

    def tick(self) -> None:
        """Report the positions of all streams soon; done with each tick anyway."""
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
            synced_changed=self._synced_changed,
        )
        following = Following(options, sink)
        peer.follow(following)
        return following

    def unfollow(self, following: Following[V]) -> None:
        """Stop following; the sink is not called again."""
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
        """Call a method of another instance.

        Raises a BusError: the handler's own, Unavailable (not running, or died during a call that is not idempotent),
        or DeadlineExceeded (it runs and is slow).
        """
        deadline = asyncio.get_running_loop().time() + timeout
        body = await self._peer(owner).call(method, body_of(request), deadline, idempotent)
        try:
            return value_of(body, reply)
        except FrameInvalid as error:
            raise Internal(f"{owner} answered {method} with something else: {error}") from None

    def cast(self, owner: str, method: str, request: Value) -> None:
        """Send a message to another instance without an answer; dropped when it is not connected."""
        self._peer(owner).cast(method, body_of(request))

    def watch_link(self, owner: str, callback: Callable[[bool], None]) -> None:
        """Call `callback(True)` when a connection to `owner` is up (now, if it is), `callback(False)` when lost."""
        self._peer(owner).watch(callback)

    def watch_synced(self, callback: Callable[[], None]) -> None:
        """Call `callback` whenever a followed stream becomes synced or stale."""
        self._on_synced = callback

    def on_tick(self, callback: Callable[[], None]) -> None:
        """Call `callback` with each tick: periodic work needs no wake-up of its own."""
        self._after_tick = callback

    @property
    def changes(self) -> int:
        """Number of ticks with a new position."""
        return self._host.changes if self._host else 0

    def note_activity(self) -> None:
        """Keep ticks at the busy interval for a while."""
        self._activity += 1

    def owned(self) -> list[Stream]:
        return list(self._host.streams.values()) if self._host else []

    def followed(self) -> list[Following[object]]:
        return [following for peer in self._peers.values() for following in peer.followings()]

    def _own_host(self) -> Host:
        if self._host is None:
            raise BusNotStarted("this bus owns and serves nothing: it has no name, or it is not started")
        return self._host

    def _peer(self, name: str) -> BusPeer:
        peer = self._peers.get(name)
        if peer is None:
            if self._sockets is None:
                raise BusNotStarted("the bus is not started, or it is closed")
            peer = BusPeer(name, self._client, self._sockets, self.counters, self._garbage, self.options.stale_after)
            self._peers[name] = peer
        return peer

    def _on_tick(self) -> None:
        """Do the only periodic work: send our tick, and check for silent owners."""
        interval = self.options.tick
        try:
            if self._host:
                self._host.on_tick()
            interval = self._interval.next(self._sample())
            self._after_tick()
        finally:
            self._set_timer(interval)

    def _sample(self) -> Activity:
        now, peers = asyncio.get_running_loop().time(), list(self._peers.values())
        silence = max([peer.on_tick(now) for peer in peers], default=0.0)
        return Activity(self._activity + self.changes, any(peer.waiting for peer in peers), silence)

    def _set_timer(self, interval: float) -> None:
        """Align ticks to multiples of the interval: the ticks of all processes then wake each of them once."""
        loop = asyncio.get_running_loop()
        at = loop.time() + interval
        self._timer = loop.call_at(at - at % interval, self._on_tick)

    def _synced_changed(self) -> None:
        self._on_synced()

    def _fault(self, error: BaseException) -> None:
        if self.options.on_fault:
            self.options.on_fault(error)
        else:
            log.error("a sink raised %s: %s", type(error).__name__, error, exc_info=error)


def _nobody() -> None:
    """Stand for a missing callback."""
