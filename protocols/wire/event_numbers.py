"""Numbers of container events: two fields the embedded runtime adds to CRI's ContainerEventResponse.

CRI does not number events, so a client cannot know how many it lost. Clients that do not know these fields skip them,
as protobuf requires; the field numbers are far above upstream's.
"""

import struct

import msgspec
from google.protobuf.unknown_fields import UnknownFieldSet

from protocols.wire import cri_pb2
from protocols.wire.protobuf import varint

_INCARNATION, _NUMBER = 50_001, 50_002
_FIXED64 = 1
"""Wire type: eight bytes, little-endian."""


class EventNumber(msgspec.Struct, frozen=True):
    incarnation: int
    """Random number of one run of the runtime process."""
    number: int
    """1 for its first event; the next event has the next number."""


def number_field(position: EventNumber) -> bytes:
    """Return the bytes to append to a serialized ContainerEventResponse."""
    return _field(_INCARNATION, position.incarnation) + _field(_NUMBER, position.number)


def number_of(event: "cri_pb2.ContainerEventResponse") -> EventNumber | None:
    """Return the event's number; None when the runtime does not number its events."""
    found = {field.field_number: field.data for field in UnknownFieldSet(event) if field.wire_type == _FIXED64}
    if _INCARNATION not in found or _NUMBER not in found:
        return None
    return EventNumber(found[_INCARNATION], found[_NUMBER])


def _field(number: int, value: int) -> bytes:
    return varint(number << 3 | _FIXED64) + struct.pack("<Q", value)
