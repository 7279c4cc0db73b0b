"""Container events: encoded once per change, queued for each subscriber in a bounded ring; emitting never waits."""

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass

from actors.runtime.model.containers import Container, Sandbox
from actors.runtime.model.cri_messages import container_status, sandbox_status
from actors.runtime.model.errors import SubscriberTooSlow
from actors.runtime.model.pods import Clock
from protocols.wire import cri_pb2 as pb
from protocols.wire.event_numbers import EventNumber, number_field

SANDBOX_TAG, CONTAINER_TAG = b"\x22", b"\x2a"
"""Fields 4 and 5 of ContainerEventResponse, length-delimited."""


PART_BYTES = 16
"""Cost of a status shared with earlier events: its reference."""


@dataclass(frozen=True, slots=True)
class EncodedEvent:
    """A serialized ContainerEventResponse in pieces. Events of one sandbox share the statuses that did not change:
    joined at once, 1,000 queued events of a sandbox with 200 containers would take 60 MB, in pieces they take 4."""

    parts: list[bytes]
    cost: int
    """Bytes that holding this event takes, without the statuses that earlier events hold already."""

    def joined(self) -> bytes:
        return b"".join(self.parts)


def event(kind: pb.ContainerEventType, id: str, at: int, sandbox: Sandbox, tail: bytes = b"") -> EncodedEvent:
    """Return the event with the sandbox and all its containers, in order of creation; `tail` are further fields."""
    head = pb.ContainerEventResponse(container_id=id, container_event_type=kind, created_at=at).SerializeToString()
    parts, fresh = [head + tail], len(head) + len(tail)
    ordered = sorted(sandbox.containers.values(), key=_created)
    for part, changed in (_sandbox(sandbox), *map(_container, ordered)):
        parts.append(part)
        fresh += len(part) if changed else 0
    return EncodedEvent(parts, fresh + PART_BYTES * len(parts))


def _sandbox(sandbox: Sandbox) -> tuple[bytes, bool]:
    """Return the field, and whether it was encoded just now."""
    if sandbox.told is not None and sandbox.told[0] is sandbox.record:
        return sandbox.told[1], False
    sandbox.told = (sandbox.record, _field(SANDBOX_TAG, sandbox_status(sandbox).SerializeToString()))
    return sandbox.told[1], True


def _container(container: Container) -> tuple[bytes, bool]:
    """Return the field, and whether it was encoded just now."""
    if container.told is not None and container.told[0] is container.record:
        return container.told[1], False
    container.told = (container.record, _field(CONTAINER_TAG, container_status(container).SerializeToString()))
    return container.told[1], True


def _created(container: Container) -> int:
    return container.record.life.created_at


def _field(tag: bytes, data: bytes) -> bytes:
    return tag + _varint(len(data)) + data


def _varint(number: int) -> bytes:
    if number < 0x80:
        return bytes((number,))
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


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
