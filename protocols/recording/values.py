"""Values of a recording as the structs that they were recorded from."""

from typing import Any, TypeVar

import msgspec

from protocols.recording.frames import RecordingInvalid

T = TypeVar("T")


def convert(value: Any, kind: type[T]) -> T:
    """Raises RecordingInvalid."""
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise RecordingInvalid(f"the recording has no {kind.__name__} where one is due: {error}") from None
