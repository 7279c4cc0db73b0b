"""Append to a recording: the state as changes, with key frames from which a reader starts, and what happens.

Blocks for a few milliseconds a second. A write that fails is undone, and the next one begins with a key frame.
"""

import os
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

import msgspec

from protocols.recording import frames
from protocols.recording.delta import REMOVED, SET, delta_of
from protocols.recording.frames import (
    CHANGES,
    ENTRIES,
    HEADER,
    KEY,
    Header,
    RecordedChange,
    RecordedEntry,
    RecordingInvalid,
)

KEY_S = 60.0
"""Seconds between two key frames of a plane that changes."""
KEY_SHARE, KEEP_SHARE = 16, 0.75
"""A key frame comes after 1/16 of the limit, too; a file beyond its limit is cut to 3/4 of it."""
CHUNK = 1 << 20
"""Bytes of a frame before compression; a single larger value has one of its own."""
LARGEST = 8 << 20
"""Bytes of a value; a larger one is left out."""
PENDING = 16 << 20
"""Bytes that wait for `flush`; beyond it the newest are left out."""
_encode = msgspec.msgpack.Encoder().encode


class RecordingWriter:
    """Opens a file that is empty, new or a recording, to which it appends. Raises RecordingInvalid, OSError."""

    def __init__(self, path: Path, header: Header, limit: int) -> None:
        self._path, self._limit, self._head = path, limit, frames.start() + _header_frame(header)
        self._file = open_recording(path)
        self.state: dict[str, dict[str, Any]] = {}
        self.left_out = 0
        """Values that were too large or too many, or that the disk had no room for."""
        self._changes: list[bytes] = []
        self._entries: list[bytes] = []
        self._pending = 0
        self._keys: list[int] = []
        """Positions of the key frames."""
        self._key_due_ms, self._key_needed = 0, True
        try:
            self.size = self._begin()
        except RecordingInvalid:
            self._file.close()
            raise

    def set(self, source: str, key: str, value: Any, at_ms: int) -> None:
        """Take a value of JSON types into the state; it must not be mutated later."""
        items = self.state.setdefault(source, {})
        old = items.get(key)
        if value != old:
            delta = [SET, value] if old is None else delta_of(old, value)
            items[key] = value
            self._add(self._changes, RecordedChange(at_ms, source, key, delta))

    def remove(self, source: str, key: str, at_ms: int) -> None:
        if self.state.get(source, {}).pop(key, None) is not None:
            self._add(self._changes, RecordedChange(at_ms, source, key, [REMOVED]))

    def happened(self, source: str, key: str, value: Any, at_ms: int) -> None:
        self._add(self._entries, RecordedEntry(at_ms, source, key, value))

    def flush(self, now_ms: int, wall_offset_ns: int) -> None:
        """Write what waits. Raises OSError; what waited is lost then."""
        changes, self._changes = self._changes, []
        entries, self._entries = self._entries, []
        self._pending = 0
        anew = bool(changes) and self._key_needed  # changes may be of values that the file lacks; a key frame has all
        data = b"" if anew else b"".join(_bodies(CHANGES, (), changes, now_ms))
        data += b"".join(_bodies(ENTRIES, (wall_offset_ns,), entries, now_ms))
        try:
            if changes and self._key_is_due(now_ms, len(data)):
                self._write(data)
                self._write_key(now_ms)
            elif data:
                self._write(data)
            if self.size > self._limit:
                self._shorten(now_ms)
        except OSError:
            self.left_out += len(changes) + len(entries)
            self._key_needed = True
            raise

    def close(self) -> None:
        self._file.close()

    def _begin(self) -> int:
        """Return the position to append at, after the last whole frame of an earlier recorder."""
        data = memoryview(self._file.read(frames.MOST_BYTES))
        whole_frames = list(frames.frames(data)) if data else []
        if not whole_frames:
            self._file.truncate(0)
            self._file.write(self._head)
            return len(self._head)
        self._keys = [frame.begin - frames.FRAME_BYTES for frame in whole_frames if frame.kind == KEY]
        self._head = bytes(data[: whole_frames[0].end])
        self._file.truncate(whole_frames[-1].end)
        return whole_frames[-1].end

    def _add(self, waiting: list[bytes], value: RecordedChange | RecordedEntry) -> None:
        data = _encode(value)
        if len(data) > LARGEST or self._pending + len(data) > PENDING:
            self.left_out += 1
            self._key_needed = True
            return
        self._pending += len(data)
        waiting.append(data)

    def _key_is_due(self, now_ms: int, more: int) -> bool:
        since = self.size + more - (self._keys[-1] if self._keys else 0)
        return self._key_needed or now_ms >= self._key_due_ms or since > self._limit // KEY_SHARE

    def _write_key(self, now_ms: int) -> None:
        at = self.size
        every = (
            _encode(RecordedChange(now_ms, source, key, [SET, value]))
            for source, items in self.state.items()
            for key, value in items.items()
        )
        first, *others = [*_bodies(KEY, (), [], now_ms), *_bodies(CHANGES, (), every, now_ms)]
        self._write(first + b"".join(others))
        self._keys.append(at)
        self._key_needed, self._key_due_ms = False, now_ms + int(KEY_S * 1000)

    def _write(self, data: bytes) -> None:
        self._file.seek(self.size)
        try:
            written = self._file.write(data)
            if written != len(data):
                raise OSError(28, os.strerror(28), str(self._path))
        except OSError:
            self._file.truncate(self.size)
            raise
        self.size += len(data)

    def _shorten(self, now_ms: int) -> None:
        """Copy the newest segments, which begin with key frames, to a file that takes this one's place."""
        keep = int(self._limit * KEEP_SHARE) - len(self._head)
        if not self._keys or self.size - self._keys[-1] > keep:
            self._write_key(now_ms)
        begin = next((at for at in self._keys if self.size - at <= keep), self._keys[-1])
        part = self._path.with_name(f"{self._path.name}.part")
        part.unlink(missing_ok=True)
        file = open_recording(part)
        try:
            file.write(self._head)
            self._file.seek(begin)
            shutil.copyfileobj(self._file, file)
            if part.stat().st_size != len(self._head) + self.size - begin:
                raise OSError(28, os.strerror(28), str(part))
            os.replace(part, self._path)
        except OSError:
            file.close()
            part.unlink(missing_ok=True)
            raise
        self._file.close()
        self._file, moved = file, begin - len(self._head)
        self._keys = [at - moved for at in self._keys if at >= begin]
        self.size -= moved


def open_recording(path: Path) -> IO[bytes]:
    """Open a file to record to, unbuffered, mode 0600. Raises RecordingInvalid for one that is something else."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    file = os.fdopen(descriptor, "r+b", buffering=0)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        file.close()
        raise RecordingInvalid(f"{path} is no file; give another name")
    begin = file.read(frames.START_BYTES)
    if begin and not begin.startswith(frames.SIGNATURE[: len(begin)]):
        file.close()
        raise RecordingInvalid(f"{path} holds something that is no recording; give another name")
    file.seek(0)
    return file


def _header_frame(header: Header) -> bytes:
    return frames.pack(HEADER, header.started_ms, _encode(header))


def _bodies(kind: int, first: tuple[int, ...], rows: Iterable[bytes], now_ms: int) -> Iterable[bytes]:
    """Yield frames of at most CHUNK bytes, or of one row; a KEY without rows is one, too."""
    chunk: list[bytes] = []
    size = 0
    for row in rows:
        if chunk and size + len(row) > CHUNK:
            yield _frame(kind, first, chunk, now_ms)
            chunk, size = [], 0
        chunk.append(row)
        size += len(row)
    if chunk or kind == KEY:
        yield _frame(kind, first, chunk, now_ms)


def _frame(kind: int, first: tuple[int, ...], rows: list[bytes], now_ms: int) -> bytes:
    raw = tuple(map(msgspec.Raw, rows))
    return frames.pack(kind, now_ms, _encode((*first, raw)))
