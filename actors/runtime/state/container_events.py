"""Container events: encoded once per change, queued for each subscriber in a bounded ring; emitting never waits."""

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator

import msgspec

from actors.runtime.model.containers import Container, Sandbox
from actors.runtime.model.cri_messages import container_status, sandbox_status
from actors.runtime.model.errors import SubscriberTooSlow
from actors.runtime.model.pods import Clock
from protocols.messages.cri import EventNumber
from protocols.wire import cri_pb2 as pb
from protocols.wire.event_numbers import number_field
from protocols.wire.protobuf import varint

SANDBOX_TAG, CONTAINER_TAG = b"\x22", b"\x2a"
"""Fields 4 and 5 of ContainerEventResponse, length-delimited."""


MOST_BYTES = 32 * 1024 * 1024
"""Bytes that one subscriber may be behind; annotations make events large."""
PART_BYTES = 16
"""Cost of a status shared with earlier events: its reference."""


class EncodedEvent(msgspec.Struct, frozen=True):
    """Serialized ContainerEventResponse in pieces.

    Events of one sandbox share unchanged statuses: 1,000 queued events of a sandbox with 200 containers take 60 MB
    joined, and 4 MB in pieces.
    """

    parts: list[bytes]
    cost: int
    """Memory of this event in bytes, without statuses that earlier events hold already."""

    def joined(self) -> bytes:
        return b"".join(self.parts)


def encode_event(kind: pb.ContainerEventType, id: str, at: int, sandbox: Sandbox, tail: bytes = b"") -> EncodedEvent:
    """Encode an event with the sandbox and all its containers in order of creation; `tail` holds further fields."""
    head = pb.ContainerEventResponse(container_id=id, container_event_type=kind, created_at=at).SerializeToString()
    parts, fresh = [head + tail], len(head) + len(tail)
    ordered = sorted(sandbox.containers.values(), key=_created)
    for part, changed in (_sandbox(sandbox), *map(_container, ordered)):
        parts.append(part)
        fresh += len(part) if changed else 0
    return EncodedEvent(parts, fresh + PART_BYTES * len(parts))


def _sandbox(sandbox: Sandbox) -> tuple[bytes, bool]:
    """Return the encoded field, and True if it was not cached."""
    if sandbox.encoded_status is not None and sandbox.encoded_status[0] is sandbox.record:
        return sandbox.encoded_status[1], False
    sandbox.encoded_status = (sandbox.record, _field(SANDBOX_TAG, sandbox_status(sandbox).SerializeToString()))
    return sandbox.encoded_status[1], True


def _container(container: Container) -> tuple[bytes, bool]:
    """Return the encoded field, and True if it was not cached."""
    if container.encoded_status is not None and container.encoded_status[0] is container.record:
        return container.encoded_status[1], False
    container.encoded_status = (
        container.record,
        _field(CONTAINER_TAG, container_status(container).SerializeToString()),
    )
    return container.encoded_status[1], True


def _created(container: Container) -> int:
    return container.record.life.created_at


def _field(tag: bytes, data: bytes) -> bytes:
    return tag + varint(len(data)) + data


class Subscription:
    """One GetContainerEvents stream."""

    def __init__(self, ring: int) -> None:
        self._ring = ring
        self._bytes = 0
        self._queue: deque[EncodedEvent] = deque()
        self._wake = asyncio.Event()
        self._overflowed = False

    def put(self, event: EncodedEvent) -> bool:
        """Queue an event. On overflow, return False; the queue is dropped and the stream ends."""
        self._bytes += event.cost
        if len(self._queue) >= self._ring or self._bytes > MOST_BYTES:
            self._queue.clear()
            self._overflowed = True
        else:
            self._queue.append(event)
        self._wake.set()
        return not self._overflowed

    async def events(self) -> AsyncIterator[bytes]:
        """Iterate forever; raise SubscriberTooSlow after an overflow."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                event = self._queue.popleft()
                self._bytes -= event.cost
                yield event.joined()
            if self._overflowed:
                raise SubscriberTooSlow(
                    f"the client fell more than {self._ring} events or {MOST_BYTES} bytes behind; "
                    "list everything and subscribe again"
                )


class ContainerEvents:
    """Numbers events and sends them to all subscribers; later subscribers get no earlier events."""

    def __init__(self, clock: Clock, ring: int) -> None:
        self._clock = clock
        self._ring = ring
        self._subscriptions: set[Subscription] = set()
        self._incarnation = int.from_bytes(os.urandom(8), "little")
        self.emitted = 0
        """Number of the newest event; counts events without a subscriber too."""
        self.overflows = 0

    @property
    def newest(self) -> EventNumber:
        return EventNumber(self._incarnation, self.emitted)

    def subscribe(self) -> Subscription:
        subscription = Subscription(self._ring)
        self._subscriptions.add(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        self._subscriptions.discard(subscription)

    def emit(self, kind: pb.ContainerEventType, id: str, sandbox: Sandbox) -> None:
        """Time stamp, encode and queue in one step of the loop, so that a later time never carries an older state."""
        at = self._clock.next()
        self.emitted += 1
        if not self._subscriptions:
            return
        encoded = encode_event(kind, id, at, sandbox, number_field(self.newest))
        slow = {subscription for subscription in self._subscriptions if not subscription.put(encoded)}
        self._subscriptions -= slow
        self.overflows += len(slow)
