"""The body of a watch: one JSON event a line, taken apart and checked."""

from collections.abc import AsyncIterator

import msgspec

from protocols.kube.errors import ApiError, EventInvalid
from protocols.kube.jsons import read_json_object
from protocols.kube.meta import Object, name_of, version_of

LINE_LIMIT = 16 << 20
"""Bytes one event may have."""
CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED"})


async def lines_of(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Whole lines, however they are cut into chunks; a last line that was cut off is dropped with its connection."""
    rest: list[bytes] = []
    size = 0
    async for chunk in chunks:
        first, *lines = chunk.split(b"\n")
        rest.append(first)
        size += len(first)
        if size > LINE_LIMIT:
            raise EventInvalid(f"a watch event is larger than {LINE_LIMIT} bytes")
        if not lines:
            continue
        yield b"".join(rest)
        for line in lines[:-1]:
            yield line
        rest, size = [lines[-1]], len(lines[-1])


def event_of(line: bytes) -> Object:
    """One event. Raises ApiError for an ERROR event, EventInvalid for what is none."""
    try:
        event = read_json_object(line)
    except (msgspec.DecodeError, RecursionError) as error:
        raise EventInvalid(f"a watch line is not a JSON object: {error}") from None
    kind, obj = event.get("type"), event.get("object")
    if not isinstance(obj, dict):
        raise EventInvalid(f"a watch event of type {kind!r} has no object")
    if kind == "ERROR":
        code = obj.get("code")
        raise ApiError(code if isinstance(code, int) else 500, obj)
    if kind not in CHANGES and kind != "BOOKMARK":
        raise EventInvalid(f"a watch event has the unknown type {kind!r}")
    if not version_of(obj) or (kind in CHANGES and not name_of(obj)):
        raise EventInvalid(f"a watch event of type {kind} has no name or no resourceVersion")
    return event
