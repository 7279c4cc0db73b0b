"""The vocabulary: messages, their fields, and values that are one field on the wire and one value in JSON."""

import enum
from collections.abc import Callable
from typing import Any

import msgspec

VARINT, FIXED64, DELIMITED, GROUP, GROUP_END, FIXED32 = range(6)
"""Wire types."""


class Shape(enum.Enum):
    ONE = enum.auto()
    LIST = enum.auto()
    MAP = enum.auto()
    INLINE = enum.auto()
    """A message whose fields stand in the parent's JSON object."""


class Leaf(msgspec.Struct, frozen=True):
    """A value that is no message to us. `read` takes an int (VARINT) or bytes (DELIMITED), `write` gives them back.

    `read` raises ProtobufInvalid and may answer None: the field is unset. `write` raises Unencodable.
    """

    wire: int
    read: Callable[[Any], Any]
    write: Callable[[Any], Any]
    scalar: bool = True
    """Whether JSON may leave out its zero."""


class Field(msgspec.Struct, frozen=True):
    """Exactly one of `leaf` and `message` is set."""

    number: int
    name: str
    shape: Shape
    leaf: Leaf | None = None
    message: "Message | None" = None
    keep_zero: bool = False


class Message(msgspec.Struct, eq=False):
    """`fields` by number, in the order they are written; filled after creation, as messages name each other."""

    name: str
    fields: dict[int, Field] = msgspec.field(default_factory=dict)
