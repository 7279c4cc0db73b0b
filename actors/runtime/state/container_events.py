"""Container events: to each subscriber through its own bounded ring, and no caller ever waits for one."""

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator

from actors.runtime.model.clock import Clock
from actors.runtime.model.errors import SubscriberTooSlow
from actors.runtime.model.types import Sandbox
from actors.runtime.state.payload import EncodedEvent, event
from protocols.wire import cri_pb2 as pb
from protocols.wire.event_numbers import EventNumber, number_field

MOST_BYTES = 32 * 1024 * 1024
"""What one subscriber may be behind in bytes; annotations make events large."""


class Subscription:
    """One GetContainerEvents stream."""

    def __init__(self, ring: int, most_bytes: int = MOST_BYTES) -> None:
        self._ring = ring
        self._most_bytes = most_bytes
        self._bytes = 0
        self._queue: deque[EncodedEvent] = deque()
        self._wake = asyncio.Event()
        self._overflowed = False

    def put(self, event: EncodedEvent) -> bool:
        """False when this event was too many: everything queued is dropped and the stream ends."""
        self._bytes += event.cost
        if len(self._queue) >= self._ring or self._bytes > self._most_bytes:
            self._queue.clear()
            self._overflowed = True
        else:
            self._queue.append(event)
        self._wake.set()
        return not self._overflowed

    async def events(self) -> AsyncIterator[bytes]:
        """Without end; raises SubscriberTooSlow after an overflow."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                event = self._queue.popleft()
                self._bytes -= event.cost
                yield event.joined()
            if self._overflowed:
                raise SubscriberTooSlow(
                    f"the client fell more than {self._ring} events or {self._most_bytes} bytes behind; "
                    "list everything and subscribe again"
                )


class Events:
    """Builds and numbers events and hands them out. Nothing is kept for those who subscribe later."""

    def __init__(self, clock: Clock, ring: int) -> None:
        self._clock = clock
        self._ring = ring
        self._subscriptions: set[Subscription] = set()
        self._incarnation = int.from_bytes(os.urandom(8), "little")
        self.emitted = 0
        """Events so far, also those that nobody was subscribed to: the number of the newest one."""
        self.overflows = 0

    def subscribe(self) -> Subscription:
        subscription = Subscription(self._ring)
        self._subscriptions.add(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        self._subscriptions.discard(subscription)

    def emit(self, kind: pb.ContainerEventType, id: str, sandbox: Sandbox) -> None:
        """Stamp, read and hand out in one step of the loop: a later stamp never carries an older state."""
        at = self._clock.next()
        self.emitted += 1
        if not self._subscriptions:
            return
        told = event(kind, id, at, sandbox, number_field(EventNumber(self._incarnation, self.emitted)))
        slow = {subscription for subscription in self._subscriptions if not subscription.put(told)}
        self._subscriptions -= slow
        self.overflows += len(slow)
