"""An event's bytes, put together from statuses that are encoded once a change, not once an event.

A status may depend on nothing but its record: as long as that has not been replaced, the bytes hold.
"""

from actors.runtime.status import container_status, sandbox_status
from actors.runtime.types import Container, Sandbox
from protocols.wire import cri_pb2 as pb

SANDBOX_TAG, CONTAINER_TAG = b"\x22", b"\x2a"
"""Fields 4 and 5 of ContainerEventResponse, length-delimited."""


def event(kind: pb.ContainerEventType, id: str, at: int, sandbox: Sandbox) -> bytes:
    """A serialized ContainerEventResponse with the sandbox and all its containers, in order of creation."""
    head = pb.ContainerEventResponse(container_id=id, container_event_type=kind, created_at=at).SerializeToString()
    parts = [head, _field(SANDBOX_TAG, _sandbox(sandbox))]
    ordered = sorted(sandbox.containers.values(), key=_created)
    return b"".join(parts + [_field(CONTAINER_TAG, _container(container)) for container in ordered])


def _sandbox(sandbox: Sandbox) -> bytes:
    if sandbox.told is None or sandbox.told[0] is not sandbox.record:
        sandbox.told = (sandbox.record, sandbox_status(sandbox).SerializeToString())
    return sandbox.told[1]


def _container(container: Container) -> bytes:
    if container.told is None or container.told[0] is not container.record:
        container.told = (container.record, container_status(container).SerializeToString())
    return container.told[1]


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
