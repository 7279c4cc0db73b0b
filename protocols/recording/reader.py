"""Read a recording: its index at once, the state at a time from the key frame before it, and what happened until then.

Every bound of `frames` is checked before a frame is unpacked, so a hostile file costs no more than a large one.
"""

import os
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from protocols.recording import frames
from protocols.recording.delta import apply
from protocols.recording.frames import (
    CHANGES,
    ENTRIES,
    HEADER,
    KEY,
    Header,
    RecordedChange,
    RecordedChanges,
    RecordedEntry,
    RecordedFrame,
    RecordingInvalid,
)

T = TypeVar("T")
State = dict[str, dict[str, Any]]
"""Values by source and key."""
_HEADER = msgspec.msgpack.Decoder(Header).decode
_CHANGES = msgspec.msgpack.Decoder(RecordedChanges).decode


class _RawEntry(msgspec.Struct, frozen=True, array_like=True):
    """An Entry whose value is not decoded: most of what is read is not wanted."""

    at_ms: int
    source: str
    key: str
    value: msgspec.Raw


class _RawEntries(msgspec.Struct, frozen=True, array_like=True):
    wall_offset_ns: int
    entries: tuple[_RawEntry, ...]


_ENTRIES = msgspec.msgpack.Decoder(_RawEntries).decode
_VALUE = msgspec.msgpack.Decoder().decode


class Recording:
    """An open recording. Values of a state are shared between states: read them only."""

    def __init__(self, path: Path) -> None:
        """Open a file, cut or not. Raises RecordingInvalid, OSError."""
        self._data = memoryview(_content(path))
        whole_frames = list(frames.frames(self._data))
        if not whole_frames or whole_frames[0].kind != HEADER:
            raise RecordingInvalid("the recording has no whole frame: it was cut before anything was recorded")
        self.header = self._decoded(whole_frames[0], _HEADER)
        self._states = [frame for frame in whole_frames if frame.kind in (KEY, CHANGES)]
        self._entries = [frame for frame in whole_frames if frame.kind == ENTRIES]
        self.size = whole_frames[-1].end
        """Bytes of the whole frames."""
        times = [frame.at_ms for frame in whole_frames[1:]]
        self.begin_ms = min(times, default=self.header.started_ms)
        self.end_ms = max(times, default=self.header.started_ms)

    def state(self, at_ms: int) -> State:
        """Return the state at a time; empty before the first. Raises RecordingInvalid."""
        state: State = {}
        first = max((at for at, frame in enumerate(self._states) if _begins(frame, at_ms)), default=0)
        for change in self._changes(self._states[first:], 0, at_ms):
            apply_change(state, change)
        return state

    def changes(self, since_ms: int, until_ms: int) -> Iterator[RecordedChange | None]:
        """Yield the changes after `since_ms`, until `until_ms`; None where a key frame begins the state anew."""
        return self._changes([frame for frame in self._states if frame.at_ms > since_ms], since_ms, until_ms)

    def _changes(self, states: list[RecordedFrame], since_ms: int, until_ms: int) -> Iterator[RecordedChange | None]:
        for frame in states:
            if frame.kind == KEY and frame.at_ms > until_ms:
                return
            if frame.kind == KEY:
                yield None
            for change in self._decoded(frame, _CHANGES).changes:
                if change.at_ms > until_ms:  # changes are in the order of their times
                    return
                if change.at_ms > since_ms:
                    yield change

    def entries(
        self, sources: Collection[str], until_ms: int, since_ms: int = 0, holds: bytes = b""
    ) -> Iterator[tuple[RecordedEntry, int]]:
        """Yield entries of these sources, each with the offset of spans' clock. Raises RecordingInvalid.

        Args:
            sources: Names of sources.
            until_ms: Later entries are left out.
            since_ms: Earlier ones, too.
            holds: Entries without these bytes are skipped unread.
        """
        for frame in self._entries:
            if frame.at_ms < since_ms:
                continue
            data = frames.body(self._data, frame)
            if holds not in data or not any(source.encode() in data for source in sources):
                continue
            batch = _decode(data, frame, _ENTRIES)
            for entry in batch.entries:
                if entry.source in sources and since_ms <= entry.at_ms <= until_ms and holds in bytes(entry.value):
                    value = _decode(bytes(entry.value), frame, _VALUE)
                    yield RecordedEntry(entry.at_ms, entry.source, entry.key, value), batch.wall_offset_ns

    def times(self) -> list[int]:
        """Return the moments at which something changed, in ms: the steps of a replay."""
        return sorted({frame.at_ms for frame in (*self._states, *self._entries)})

    def _decoded(self, frame: RecordedFrame, decode: Callable[[bytes], T]) -> T:
        return _decode(frames.body(self._data, frame), frame, decode)


def _begins(frame: RecordedFrame, at_ms: int) -> bool:
    return frame.kind == KEY and frame.at_ms <= at_ms


def apply_change(state: State, change: RecordedChange | None) -> None:
    """Change a state; None begins it anew. Raises RecordingInvalid."""
    if change is None:
        state.clear()
        return
    apply(state.setdefault(change.source, {}), change.key, change.delta)


def step(times: list[int], at_ms: int, count: int) -> int:
    """Return the moment `count` steps after (or before) a time."""
    here = bisect_right(times, at_ms) - 1
    return times[min(max(here + count, 0), len(times) - 1)] if times else at_ms


def _decode(data: bytes, frame: RecordedFrame, decode: Callable[[bytes], T]) -> T:
    try:
        return decode(data)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise RecordingInvalid(f"the frame at byte {frame.begin} cannot be read: {error}") from None


def _content(path: Path) -> bytes:
    """Return the bytes of a file, read and not mapped: its recorder may cut it meanwhile."""
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size > frames.MOST_BYTES:
            raise RecordingInvalid(f"{path} is larger than {frames.MOST_BYTES >> 30} GiB; record with a --record-limit")
        frames.check_start(file.peek(frames.START_BYTES))  # before all of a device, which has no end, is read
        return file.read(frames.MOST_BYTES)
