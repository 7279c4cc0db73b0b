"""Bodies: the typed values inside frames."""

from typing import Any, TypeVar

import msgspec

from protocols.bus.errors import FrameInvalid
from protocols.bus.frames import encode
from protocols.bus.types import Value

T = TypeVar("T")
EMPTY = b"\x80"
"""An empty msgpack map: any struct without required fields."""


def body_of(value: Value | None) -> bytes:
    """Encode once; bytes are taken as they are, None is a struct without fields."""
    if value is None:
        return EMPTY
    return value if isinstance(value, bytes) else encode(value)


_decoders: dict[Any, msgspec.msgpack.Decoder[Any]] = {}
"""By type: as many as the code has messages."""


def _decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.msgpack.Decoder(kind)
    return decoder


def value_of(body: bytes, kind: type[T]) -> T:
    """Decode a body; `bytes` gets it as it is. Raises FrameInvalid."""
    if kind is bytes:
        return body  # type: ignore[return-value]  # T is bytes here, which mypy cannot see
    try:
        value: T = _decoder(kind).decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError) as error:
        raise FrameInvalid(f"not a {kind.__name__}: {error}") from None
    return value
