"""One followed stream: the state machine, its timer and the user's sink; `Replica` is a sink that retains the state."""

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from protocols.bus.errors import Unavailable
from protocols.bus.follower import (
    Action,
    Clock,
    Deliver,
    Follower,
    FollowerOptions,
    Heard,
    Link,
    Marked,
    Message,
    Refetch,
    Send,
    Swap,
    Synced,
)
from protocols.bus.frames import UNDECODABLE, BusyFrame, Chunk, EventFrame, MoreFrame, SyncFrame, decoder_of
from protocols.bus.types import Event, Op, StreamSink

V = TypeVar("V")
OnChange = Callable[[Op, str, V | None, V | None], None]


class Replica(Generic[V]):
    """`on_change(op, key, new, old)`: new is None for DELETE, old is None for a new key. `items` is read only."""

    def __init__(self, on_change: OnChange[V] | None = None) -> None:
        self.items: dict[str, V] = {}
        self.mark = 0
        self.synced = False
        self._on_change = on_change

    def on_snapshot(self, items: list[tuple[str, V]], mark: int) -> None:
        """Replace the state: delete first, then set what is new or different."""
        fresh = dict(items)
        for key in [key for key in self.items if key not in fresh]:
            self._remove(key)
        for key, value in items:
            if key not in self.items or self.items[key] != value:
                self._set(key, value)
        self.mark = mark

    def on_event(self, event: Event[V]) -> None:
        if event.op is Op.DELETE:
            self._remove(event.key)
        elif event.value is not None:
            self._set(event.key, event.value)
        self.mark = event.mark or self.mark

    def on_mark(self, mark: int) -> None:
        self.mark = mark

    def on_synced(self, synced: bool) -> None:
        self.synced = synced

    def _set(self, key: str, value: V) -> None:
        old = self.items.get(key)
        self.items[key] = value
        if self._on_change:
            self._on_change(Op.UPSERT, key, value, old)

    def _remove(self, key: str) -> None:
        old = self.items.pop(key, None)
        if old is not None and self._on_change:
            self._on_change(Op.DELETE, key, None, old)


class FollowingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Stream to follow, and the callbacks by which its following reaches the bus."""

    owner: str
    stream: str
    type: type[Any]
    follower: FollowerOptions
    send: Callable[[SyncFrame | MoreFrame], bool]
    garbage: Callable[[str, BaseException], None]
    """A body did not decode: (where, why)."""
    fault: Callable[[BaseException], None]
    """The sink raised: a bug of its actor."""
    synced_changed: Callable[[], None]
    """`synced` changed, and the sink knows."""


class Following(Generic[V]):
    """A followed stream, made by Bus.follow. While `synced` is False, the sink may be behind the owner."""

    def __init__(self, options: FollowingOptions, sink: StreamSink[V]) -> None:
        self.owner = options.owner
        self.stream = options.stream
        self._options = options
        self._sink = sink
        self._decode: Callable[[Any], V] = decoder_of(options.type)
        self._machine = Follower(options.follower)
        self._accept = self._machine.accept
        self._on_event = sink.on_event
        self._on_mark = sink.on_mark
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._alarm_at: float | None = None
        self._waiters: set[asyncio.Future[None]] = set()
        self._closed = False

    @property
    def synced(self) -> bool:
        return self._machine.synced

    @property
    def mark(self) -> int:
        return self._machine.mark

    @property
    def epoch(self) -> int:
        return self._machine.epoch

    @property
    def seq(self) -> int:
        return self._machine.seq

    @property
    def heard_at(self) -> float:
        """Time of the owner's last position report on this loop's clock; minus infinity: never."""
        return self._machine.heard_at

    @property
    def silence(self) -> float:
        """Seconds since the owner's last position report: a synced replica is no older than this."""
        return self._loop.time() - self._machine.heard_at

    @property
    def syncs(self) -> int:
        """Syncs begun so far."""
        return self._machine.syncs

    async def wait_synced(self, timeout: float) -> None:
        """Wait until synced; raise Unavailable after `timeout` seconds."""
        if self.synced:
            return
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.add(waiter)
        try:
            async with asyncio.timeout(timeout):
                await waiter
        except TimeoutError:
            raise Unavailable(f"{self.owner} did not sync stream {self.stream} within {timeout:g} s") from None
        finally:
            self._waiters.discard(waiter)

    def event(self, frame: EventFrame) -> None:
        if self._accept(frame):
            self._deliver(frame)
        else:
            self._step(frame)

    def tick(self, epoch: int, position: tuple[int, int], proof: bool, now: float) -> None:
        """`position` is (seq, mark): most ticks only move the mark, or nothing."""
        machine = self._machine
        before = machine.mark
        if self._closed:
            return
        if not machine.accept_tick(epoch, position, now):
            self._step(Heard(epoch, *position, proof))
        elif machine.mark > before:
            try:
                self._on_mark(machine.mark)
            except Exception as error:
                self._options.fault(error)

    def answer(self, frame: Chunk | BusyFrame) -> None:
        self._step(frame)

    def link(self, up: bool) -> None:
        self._step(Link(up))

    def clock(self) -> None:
        self._step(Clock())

    def refetch(self) -> None:
        """Ask for a snapshot: the sink found that its state cannot be trusted. Safe to call from the sink."""
        self._loop.call_soon(self._step, Refetch())

    def close(self) -> None:
        self._closed = True
        self._accept = _refuse
        if self._timer:
            self._timer.cancel()
        for waiter in self._waiters:
            waiter.cancel()

    def _step(self, message: Message) -> None:
        if self._closed:
            return
        actions = self._machine.step(message, self._loop.time())
        for action in actions:
            if not self._closed:  # an earlier one may have made the sink stop following
                self._act(action)
        if not self._closed:
            self._set_timer()

    def _act(self, action: Action) -> None:
        if isinstance(action, Deliver):
            self._deliver(action.frame)
        elif isinstance(action, Send):
            self._options.send(action.frame)
        elif isinstance(action, Swap):
            self._guard(self._sink.on_snapshot, self._items(action), action.mark)
        elif isinstance(action, Marked):
            self._guard(self._on_mark, action.mark)
        else:
            self._report_synced(action)

    def _deliver(self, frame: EventFrame) -> None:
        """A body that does not decode is passed over: asking again would bring the same bytes."""
        event: Event[Any] = frame
        try:
            if event.value or event.op is not Op.DELETE:
                event.value = self._decode(event.value)
            else:
                event.value = None
        except UNDECODABLE as error:
            self._options.garbage(f"{self.owner}/{self.stream}", error)
            return
        try:
            self._on_event(event)
        except Exception as error:
            self._options.fault(error)

    def _items(self, swap: Swap) -> list[tuple[str, V]]:
        """Bodies are freed one by one as they are decoded: both forms of a large snapshot would be twice its size."""
        items: list[tuple[str, V]] = []
        swap.items.reverse()
        while swap.items:
            key, body = swap.items.pop()
            try:
                items.append((key, self._decode(body)))
            except UNDECODABLE as error:
                self._options.garbage(f"{self.owner}/{self.stream}", error)
        return items

    def _report_synced(self, action: Synced) -> None:
        self._guard(self._sink.on_synced, action.synced)
        if action.synced:
            for waiter in self._waiters:
                if not waiter.done():
                    waiter.set_result(None)
        self._options.synced_changed()

    def _guard(self, method: Callable[..., None], *arguments: object) -> None:
        try:
            method(*arguments)
        except Exception as error:
            self._options.fault(error)

    def _set_timer(self) -> None:
        wake_at = self._machine.wake_at
        if wake_at == self._alarm_at:
            return
        if self._timer:
            self._timer.cancel()
        self._alarm_at = wake_at
        self._timer = None if wake_at is None else self._loop.call_at(wake_at, self._alarm)

    def _alarm(self) -> None:
        self._timer = self._alarm_at = None
        self._step(Clock())


def _refuse(frame: EventFrame) -> bool:
    """Replace `accept` once closed: no frame is the expected next event."""
    return False
