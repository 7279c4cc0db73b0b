"""Bodies: the typed values inside frames."""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from protocols.bus.errors import FrameInvalid
from protocols.bus.frames import UNDECODABLE, encode
from protocols.bus.types import Value

T = TypeVar("T")
EMPTY = b"\x80"
"""An empty msgpack map: any struct without required fields."""

_decoders: dict[Any, Callable[[bytes], Any]] = {bytes: bytes}
"""By type: as many as the code has messages. `bytes` gets a body as it is."""


def body_of(value: Value | None) -> bytes:
    """Encode once; bytes are taken as they are, None is a struct without fields."""
    if value is None:
        return EMPTY
    return value if isinstance(value, bytes) else encode(value)


def decoder_of(kind: type[T]) -> Callable[[bytes], T]:
    """A function from body to value that raises one of UNDECODABLE."""
    decode = _decoders.get(kind)
    if decode is None:
        decode = _decoders[kind] = msgspec.msgpack.Decoder(kind).decode
    return decode


def value_of(body: bytes, kind: type[T]) -> T:
    """Decode a body; raises FrameInvalid."""
    try:
        return decoder_of(kind)(body)
    except UNDECODABLE as error:
        raise FrameInvalid(f"not a {kind.__name__}: {error}") from None
