"""An event's bytes, put together from statuses that are encoded once a change, not once an event.

A status may depend on nothing but its record: as long as that has not been replaced, the bytes hold.
"""

from dataclasses import dataclass

from actors.runtime.model.cri_messages import container_status, sandbox_status
from actors.runtime.model.types import Container, Sandbox
from protocols.wire import cri_pb2 as pb

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
