"""The client side of a bus towards one other instance: its ROUTER, its PUB, followed streams and open calls."""

import asyncio
from collections.abc import Callable
from typing import Any

from protocols.bus.calls import CallTable, OpenCall
from protocols.bus.channel import Channel, Counters, Garbage, Sockets
from protocols.bus.errors import AlreadyExists, BusError, error_for
from protocols.bus.following import Following
from protocols.bus.frames import (
    TICK_TOPIC,
    UNDECODABLE,
    VERSION,
    Answer,
    CastFrame,
    FailureFrame,
    MoreFrame,
    PingFrame,
    PongFrame,
    ReplyFrame,
    SyncFrame,
    TickFrame,
    decode_answer,
    decode_published,
    encode,
    topic_of,
)
from protocols.bus.types import Event

PING_AFTER = 0.5
COPY_BELOW = 8192
"""Bytes below which a copy costs less than a view."""


class BusPeer:
    """Connections to one other instance, made at first use and shared by all that is followed or called there."""

    def __init__(
        self, name: str, client: str, sockets: Sockets, counters: Counters, garbage: Garbage, stale_after: float
    ) -> None:
        self.name = name
        self._stale_after = stale_after
        self._sockets = sockets
        self._counters = counters
        self._garbage = garbage
        self._loop = asyncio.get_running_loop()
        self._calls = CallTable(name, client)
        self._futures: dict[str, asyncio.Future[bytes]] = {}
        self._followings: dict[bytes, Following[Any]] = {}
        self._watchers: list[Callable[[bool], None]] = []
        self._resend: asyncio.TimerHandle | None = None
        self._subscriber: Channel[bytes] | None = None
        self._dealer = sockets.dealer(name, self._on_answers, self._on_link)

    def follow(self, following: Following[Any]) -> None:
        """Subscribe first; the sync begins when the connection is up."""
        topic = topic_of(following.stream)
        if topic in self._followings:
            raise AlreadyExists(f"stream {following.stream} of {self.name} is followed already; share its sink")
        self._followings[topic] = following
        if self._subscriber is None:
            self._subscriber = self._sockets.subscriber(self.name, self._on_published)
            self._subscriber.subscribe(TICK_TOPIC)
        self._subscriber.subscribe(topic)
        if self._dealer.up:
            following.link(True)

    def unfollow(self, following: Following[Any]) -> None:
        topic = topic_of(following.stream)
        following.close()
        if self._followings.get(topic) is following:
            del self._followings[topic]
            if self._subscriber is not None:
                self._subscriber.unsubscribe(topic)

    def watch(self, callback: Callable[[bool], None]) -> None:
        self._watchers.append(callback)
        if self._dealer.up:
            callback(True)

    def send(self, frame: SyncFrame | MoreFrame) -> bool:
        return self._dealer.send(encode(frame))

    def cast(self, method: str, body: bytes) -> None:
        if not self._dealer.send(encode(CastFrame(VERSION, method, body))):
            self._counters.unsent += 1

    async def call(self, method: str, body: bytes, deadline: float, idempotent: bool) -> bytes:
        call = self._calls.open(method, body, deadline, idempotent)
        future: asyncio.Future[bytes] = self._loop.create_future()
        self._futures[call.id] = future
        alarm = self._loop.call_at(deadline, self._expire, call)
        self._transmit(call)
        try:
            return await future
        finally:
            alarm.cancel()
            self._calls.close(call.id)
            self._futures.pop(call.id, None)

    def on_tick(self, now: float) -> float:
        """Check for silence with each tick, after draining what arrived. Return the longest silence."""
        followings = self._followings.values()
        silence = now - min([following.heard_at for following in followings], default=now)
        if silence > self._stale_after and self._subscriber:
            self._subscriber.drain()
            for following in self.followings():
                following.clock()
        if self._futures and self._calls.waiting_since(now - PING_AFTER):
            self._dealer.send(encode(PingFrame(VERSION)))
        return silence

    @property
    def waiting(self) -> bool:
        """A call has no answer yet."""
        return bool(self._futures)

    def close(self) -> None:
        for following in self.followings():
            following.close()
        for future in self._futures.values():
            future.cancel()
        if self._resend:
            self._resend.cancel()
        if self._subscriber:
            self._subscriber.close()
        self._dealer.close()

    def followings(self) -> list[Following[Any]]:
        return list(self._followings.values())

    def _on_link(self, up: bool) -> None:
        for following in self.followings():
            following.link(up)
        for callback in self._watchers:
            callback(up)
        if up:
            self._dealer.send(encode(PingFrame(VERSION)))
            self._flush()
        else:
            self._fail(self._calls.lost(self._loop.time()))

    def _on_published(self, batch: list[bytes]) -> None:
        """The hot path: topic, NUL, frame; a known event goes to its following without a detour."""
        topic, following = b"\0", None
        for data in batch:
            if not topic or not data.startswith(topic):
                topic = data[: data.find(0) + 1]
                following = self._followings.get(topic)
            cut = len(topic)
            try:
                frame = decode_published(data[cut:] if len(data) < COPY_BELOW else memoryview(data)[cut:])
            except UNDECODABLE as error:
                self._garbage.note(f"{self.name}.pub", error)
                continue
            if isinstance(frame, Event):
                if following is not None:
                    following.event(frame)
            else:
                self._on_tick(frame, proof=cut > 1)

    def _on_tick(self, frame: TickFrame, proof: bool) -> None:
        """Hand positions on without repeated work: most ticks carry no more than new marks of dozens of streams."""
        now = self._loop.time()
        for following in self.followings():
            position = frame.positions.get(following.stream)
            if position is not None:
                following.tick(frame.epoch, position, proof, now)

    def _on_answers(self, batch: list[bytes]) -> None:
        for data in batch:
            try:
                frame = decode_answer(data)
            except UNDECODABLE as error:
                self._garbage.note(f"{self.name}.rpc", error)
            else:
                self._dispatch(frame)

    def _dispatch(self, frame: Answer) -> None:
        if isinstance(frame, ReplyFrame):
            self._heard(frame.epoch)
            self._resolve(frame.id, frame.body)
        elif isinstance(frame, FailureFrame):
            self._heard(frame.epoch)
            self._reject(frame.id, error_for(frame.code, frame.message, frame.details))
        elif isinstance(frame, PongFrame):
            self._heard(frame.epoch)
        else:
            following = self._followings.get(topic_of(frame.stream))
            if following is not None:
                following.answer(frame)

    def _heard(self, epoch: int) -> None:
        if epoch != self._calls.epoch:
            self._fail(self._calls.heard(epoch, self._loop.time()))
            self._flush()

    def _transmit(self, call: OpenCall) -> None:
        now = self._loop.time()
        if self._dealer.up and self._dealer.send(encode(self._calls.request(call, now))):
            self._calls.went(call, now)

    def _flush(self) -> None:
        """Send what waits; what must still back off gets a timer."""
        if self._resend:
            self._resend.cancel()
            self._resend = None
        if not self._dealer.up:
            return
        now = self._loop.time()
        for call in self._calls.due(now):
            self._transmit(call)
        due = self._calls.next_due()
        if due is not None and due > now:
            self._resend = self._loop.call_at(due, self._flush)

    def _expire(self, call: OpenCall) -> None:
        self._reject(call.id, self._calls.late(call))

    def _fail(self, failed: list[OpenCall]) -> None:
        for call in failed:
            self._reject(call.id, self._calls.died(call))

    def _resolve(self, id: str, body: bytes) -> None:
        future = self._futures.get(id)
        if future and not future.done():
            future.set_result(body)

    def _reject(self, id: str, error: BusError) -> None:
        future = self._futures.get(id)
        if future and not future.done():
            future.set_exception(error)
