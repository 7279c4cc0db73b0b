"""Broadcast the events of one stream to watch clients, each at its own pace.

- `Journal`: the newest events by position, for clients that resume.
- `Watchers`: one bounded queue per open watch, so a slow client never delays the others.
- `serve_watch`: writes a watcher's queue to its client, and cuts off a client that does not read.

A position is a number that only grows. Clients see it as LINEAGE-COUNT: the lineage is the part from MARK_SHIFT on of
the position where the ledger began, the count is how far it has come since.
"""

import asyncio
import re
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import grpc.aio
import msgspec

from actors.frontdoor.serving.errors import MetadataInvalid, PositionLost, Stopping, WatcherTooSlow
from actors.frontdoor.serving.quota import WatchQuota
from protocols.errors import NodeplaneError
from protocols.messages.devices import MARK_SHIFT
from protocols.process.tasks import awaited

Context = grpc.aio.ServicerContext[Any, Any]

WAKE_BATCH = 50
"""Watchers woken per event loop iteration."""
_REVISION = re.compile(r"([0-9a-f]{1,16})-([0-9]{1,19})", re.ASCII)


class EncodedEvent(msgspec.Struct, frozen=True):
    """One watch message, encoded once for all clients. `position` is the state after it; 0 within a snapshot."""

    position: int
    message: bytes


class Journal:
    """The newest `size` events of a stream.

    `position` is the current state; `since` has every event after `floor`.
    """

    def __init__(self, size: int) -> None:
        self.position = 0
        self.floor = 0
        self.base = 0
        """The lineage, as the position at which its count is 0."""
        self._events: deque[EncodedEvent] = deque()
        self._size = size

    def begin(self, position: int) -> None:
        """Drop all events and start at `position`."""
        self.position = self.floor = position
        self.base = position >> MARK_SHIFT << MARK_SHIFT
        self._events.clear()

    def append(self, event: EncodedEvent) -> None:
        self.advance(event.position)
        self._events.append(event)
        if len(self._events) > self._size:
            self.floor = self._events.popleft().position

    def advance(self, position: int) -> None:
        """Move the position forward without an event."""
        self.position = max(self.position, position)

    def since(self, position: int) -> list[EncodedEvent]:
        """Return every event after `position`.

        Raises:
            PositionLost: Some of them are no longer retained, or `position` is from another lineage.
        """
        if not self.floor <= position <= self.position:
            raise PositionLost(f"position {self.revision(position)} is not retained; start again with a snapshot")
        return [event for event in self._events if event.position > position]

    def prepend(self, events: Iterable[EncodedEvent], floor: int) -> None:
        """Add older events that end where this journal begins; nothing after `floor` is missing among them."""
        older = list(events)
        dropped = max(0, len(older) + len(self._events) - self._size)
        self.floor = older[dropped - 1].position if dropped else floor
        self._events.extendleft(reversed(older[dropped:]))

    def revision(self, position: int | None = None) -> str:
        """Return a position, by default the current one, as LINEAGE-COUNT."""
        if position is None:
            position = self.position
        base = self.base if position >= self.base else position >> MARK_SHIFT << MARK_SHIFT
        return f"{base >> MARK_SHIFT:x}-{position - base}"


def parse_revision(text: str) -> int:
    """Return the position of a LINEAGE-COUNT. Raises MetadataInvalid."""
    match = _REVISION.fullmatch(text)
    position = (int(match[1], 16) << MARK_SHIFT) + int(match[2]) if match else -1
    if not 0 <= position < 1 << 63:
        raise MetadataInvalid(f'"{text[:80]}" is not a revision; send the value of the nodeplane-revision header')
    return position


class Watcher:
    """The queue of one open watch. `ended` is the error that ends the watch once its queue is empty."""

    def __init__(self, limit: int) -> None:
        self.ended: NodeplaneError | None = None
        self._limit = limit
        self._queue: deque[EncodedEvent] = deque()
        self._wake = asyncio.Event()
        self._finished = asyncio.Event()

    def __len__(self) -> int:
        """Return the number of queued events."""
        return len(self._queue)

    def push(self, event: EncodedEvent) -> None:
        if self.ended is not None:
            return
        if len(self._queue) >= self._limit:
            self.end(WatcherTooSlow(f"the client is {self._limit} events behind; watch again"))
            return
        self._queue.append(event)

    def wake(self) -> None:
        self._wake.set()

    def end(self, error: NodeplaneError) -> None:
        self.ended = self.ended or error
        self._wake.set()
        self._finished.set()

    async def wait_finished(self, writing: "asyncio.Future[None]") -> None:
        """Wait until the watch has ended or `writing` to its client has."""
        writing.add_done_callback(lambda done: self._finished.set())
        await self._finished.wait()

    async def next(self) -> EncodedEvent:
        """Return the next event; after the last one raise the error that ended the watch."""
        while not self._queue:
            if self.ended is not None:
                raise self.ended
            self._wake.clear()
            await self._wake.wait()
        return self._queue.popleft()


class Watchers:
    """All open watches of one stream."""

    def __init__(self, queue_limit: int, quota: WatchQuota) -> None:
        self._queue_limit = queue_limit
        self._quota = quota
        self._open: dict[Watcher, str] = {}

    def open(self, client: str = "") -> Watcher:
        """Raises TooManyWatchers."""
        self._quota.acquire(client)
        watcher = Watcher(self._queue_limit)
        self._open[watcher] = client
        return watcher

    def close(self, watcher: Watcher) -> None:
        self._quota.release(self._open.pop(watcher))

    @property
    def lag(self) -> int:
        """Events queued for the slowest client."""
        return max(map(len, self._open), default=0)

    def push(self, event: EncodedEvent) -> None:
        # Every queue has the event at once, but watchers wake in batches: the bytes for the first ones leave before the
        # last ones run.
        for watcher in self._open:
            watcher.push(event)
        self._wake(list(self._open))

    def _wake(self, watchers: list[Watcher]) -> None:
        for watcher in watchers[:WAKE_BATCH]:
            watcher.wake()
        if len(watchers) > WAKE_BATCH:
            asyncio.get_running_loop().call_soon(self._wake, watchers[WAKE_BATCH:])

    def end_all(self) -> None:
        for watcher in self._open:
            watcher.end(Stopping("the pod resources server is stopping; connect again"))

    def __len__(self) -> int:
        return len(self._open)


class WatchOutput(msgspec.Struct, frozen=True):
    """The response stream of one watch, whose headers have been sent."""

    context: Context
    initial: Iterable[EncodedEvent]
    """Written before the watcher's queue."""
    encode: Callable[[EncodedEvent], bytes]
    drain_timeout_s: float
    """Time for a client that was too slow to read what is queued."""
    on_too_slow: Callable[[], None]


async def serve_watch(watcher: Watcher, output: WatchOutput) -> None:
    """Write events until the watch ends, then raise its error."""
    writing = awaited(_write_events(watcher, output))
    try:
        await watcher.wait_finished(writing)
        if not writing.done():
            if isinstance(watcher.ended, WatcherTooSlow):
                output.on_too_slow()
            await asyncio.wait([writing], timeout=output.drain_timeout_s)
    finally:
        writing.cancel()
    if writing.done() and not writing.cancelled():
        writing.result()
    raise watcher.ended or WatcherTooSlow("the client does not read")


async def _write_events(watcher: Watcher, output: WatchOutput) -> None:
    write, encode = output.context.write, output.encode
    for event in output.initial:
        await write(encode(event))
    while True:
        await write(encode(await watcher.next()))
