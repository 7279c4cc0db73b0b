"""Numbers of container events: two fields the embedded runtime adds to CRI's ContainerEventResponse and StatusResponse.

CRI does not number events, so a client cannot know how many it lost. In StatusResponse they are those of the newest
event, so that a client also learns of lost events that no other followed. Clients that do not know these fields skip
them, as protobuf requires; the field numbers are far above upstream's.
"""

import struct

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from protocols.messages.cri import EventNumber
from protocols.wire.protobuf import varint

_INCARNATION, _NUMBER = 50_001, 50_002
_FIXED64 = 1
"""Wire type: eight bytes, little-endian."""


def number_field(position: EventNumber) -> bytes:
    """Return the bytes to append to a serialized message."""
    return _field(_INCARNATION, position.incarnation) + _field(_NUMBER, position.number)


def number_of(message: Message) -> EventNumber | None:
    """Return the number in a message; None when the runtime does not number its events."""
    fields = {field.field_number: field.data for field in UnknownFieldSet(message) if field.wire_type == _FIXED64}
    if _INCARNATION not in fields or _NUMBER not in fields:
        return None
    return EventNumber(fields[_INCARNATION], fields[_NUMBER])


def _field(number: int, value: int) -> bytes:
    return varint(number << 3 | _FIXED64) + struct.pack("<Q", value)
