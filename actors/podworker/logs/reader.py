"""Read a container's log from disk: parse CRI lines, find the tail, follow across rotation.

A line is `<time> <stdout|stderr> <tags> <content>`; tag P means that the output line continues in the next one of its
stream, F that it ends here. Lines that do not parse are skipped: a torn line after a full disk hides no other.

Files are read in threads, one chunk at a time.
"""

import asyncio
import calendar
import contextlib
import errno
import functools
import os
import re
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from protocols.process.files import open_regular
from protocols.process.inotify import CONTENTS, DirectoryChanges

CHUNK = 128 * 1024
"""Bytes read from a log file at once."""
LONGEST = 1024 * 1024
"""Bytes of one line in the file. Longer lines are no CRI log lines and are dropped."""
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d\d):(\d\d))$")
BLOCK = 64 * 1024
LOOK_S = 0.5
"""Interval at which a follower checks that its container still runs, while the log does not grow."""
BLIND_S = 0.25
"""Polling interval where inotify is not available."""
SETTLE_S = 0.02
"""Pause after a change, so that many small writes are read at once."""


class LogOptions(msgspec.Struct, frozen=True):
    """-1 = no limit."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail: int = -1
    limit: int = -1
    """Bytes of output."""
    since_ns: int = 0
    stream: str = ""
    """stdout or stderr; empty = both."""


class Line(NamedTuple):
    """One CRI log line; `partial` lines go on in the next one."""

    stamp: bytes
    stream: bytes
    partial: bool
    content: bytes


def parse(raw: bytes) -> Line | None:
    """Parse a line without its newline. Returns None if it is no CRI log line."""
    parts = raw.split(b" ", 3)
    if len(parts) < 3 or parts[1] not in (b"stdout", b"stderr") or not parts[2]:
        return None
    content = parts[3] if len(parts) == 4 else b""
    return Line(parts[0], parts[1], parts[2].split(b":")[0] == b"P", content)


class Renderer:
    """Turns bytes of the file into bytes for the client. `full` is True once the byte limit is reached."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._left = options.limit
        self._rest = b""
        self._wanted = options.stream.encode()
        self._inside: dict[bytes, bool] = {}
        """Streams in the middle of an output line."""
        self._old: dict[bytes, bool] = {}
        """True for streams whose current output line began before `since`."""
        self.full = options.limit == 0

    def feed(self, data: bytes) -> bytes:
        *raw, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LONGEST:
            self._rest = b""
        return self._limited(b"".join(self._shown(line) for line in map(parse, raw) if line is not None))

    def reset(self) -> None:
        """Drop the unfinished line after the file was replaced."""
        self._rest = b""

    def _shown(self, line: Line) -> bytes:
        begins = not self._inside.get(line.stream, False)
        if begins:
            self._old[line.stream] = self._is_old(line.stamp)
        self._inside[line.stream] = line.partial
        if self._old[line.stream] or (self._wanted and line.stream != self._wanted):
            return b""
        stamp = fixed_width(line.stamp) + b" " if begins and self._options.timestamps else b""
        return stamp + line.content + (b"" if line.partial else b"\n")

    def _is_old(self, stamp: bytes) -> bool:
        since = self._options.since_ns
        if not since:
            return False
        at = stamp_ns(stamp)
        return at is not None and at < since

    def _limited(self, shown: bytes) -> bytes:
        if self._left < 0:
            return shown
        shown = shown[: self._left]
        self._left -= len(shown)
        self.full = self._left == 0
        return shown


def fixed_width(stamp: bytes) -> bytes:
    """Return an RFC 3339 time with nine fractional digits, as kubelet shows it; anything else as it is.

    containerd leaves out zeros at the end.
    """
    match = _STAMP.match(stamp)
    if match is None:
        return stamp
    seconds, digits = match[1], match[2] or b""
    zone = stamp[match.end(2) if digits else match.end(1) :]
    return seconds + b"." + digits.ljust(9, b"0") + zone


def stamp_ns(stamp: bytes) -> int | None:
    """Parse an RFC 3339 time with up to nine fractional digits to nanoseconds since the epoch; None if malformed."""
    match = _STAMP.match(stamp)
    if match is None:
        return None
    whole, digits, sign, hours, minutes = match.groups()
    try:
        seconds = _seconds(whole)
    except ValueError:
        return None
    offset = (int(hours) * 60 + int(minutes)) * 60 * (-1 if sign == b"-" else 1) if sign else 0
    return (seconds - offset) * 1_000_000_000 + int((digits or b"0").ljust(9, b"0"))


@functools.lru_cache(16)
def _seconds(text: bytes) -> int:
    """Parse a date and time; lines of a busy log have few. Raises ValueError."""
    return calendar.timegm(time.strptime(text.decode().upper(), "%Y-%m-%dT%H:%M:%S"))


def tail_offset(file: BinaryIO, lines: int, end: int) -> int:
    """Return the offset at which the last `lines` output lines before `end` begin.

    Parts of one output line (tag P) count as one.
    """
    seen: set[bytes] = set()
    for start, raw in backwards(file, end):
        line = parse(raw)
        if line is None or (line.partial and line.stream in seen):
            continue  # tag P before another part of its stream: the line was counted
        if lines <= 0:
            return start + len(raw) + 1
        seen.add(line.stream)
        lines -= 1
    return 0


def backwards(file: BinaryIO, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield lines with their offsets, last one first. Bytes after the last newline are no line yet."""
    held, complete = b"", False
    while end > 0:
        start = max(0, end - BLOCK)
        file.seek(start)
        held, end = file.read(end - start) + held, start
        pieces = held.split(b"\n")
        at = start + len(held) + 1
        for piece in reversed(pieces[1:]):
            at -= len(piece) + 1
            if complete:
                yield at, piece
            complete = True
        held = pieces[0] if len(pieces[0]) <= LONGEST else b""
    if complete:
        yield 0, held


class End(Enum):
    """State of a follower at the end of the file."""

    WAIT = "nothing new yet"
    MORE = "it has grown"
    ANOTHER = "reading goes on at the start of another file"


class OpenLogFile:
    """An open log file and the position in it.

    A missing file reads as empty, and so does anything but a regular file: a container that may write to the log
    directory could have placed a link to any file of the host there.

    Without `follow` it ends where it ended when it was opened: a container may write faster than its client reads.
    """

    def __init__(self, path: str, follow: bool = True) -> None:
        self._path = path
        self._follow = follow
        self._file: BinaryIO | None = None
        self._end = 0

    def open(self, tail: int) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._file = self._opened()
        if self._file is not None:
            self._end = self._file.seek(0, 2)
            self._file.seek(tail_offset(self._file, tail, self._end) if tail >= 0 else 0)

    def _opened(self) -> BinaryIO | None:
        try:
            return open_regular(self._path)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EINVAL):
                return None
            raise

    def read(self) -> bytes:
        if self._file is None:
            return b""
        return self._file.read(CHUNK if self._follow else max(0, min(CHUNK, self._end - self._file.tell())))

    def at_end(self) -> End:
        """Decide how to continue at the end of the file.

        A writer opens the new file before it releases the old one: a reader that sees the new file reads the old one to
        its end once more, and then has all of it.
        """
        try:
            there = os.lstat(self._path)
        except OSError:
            return End.WAIT  # renamed but not reopened: the writer still writes to the open file
        if self._file is None:
            return self._switch()
        here, position = os.fstat(self._file.fileno()), self._file.tell()
        if here.st_size > position:
            return End.MORE
        if here.st_size < position:
            self._file.seek(0)
            return End.ANOTHER
        return End.WAIT if (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino) else self._switch()

    def _switch(self) -> End:
        self.close()
        self.open(-1)
        return End.ANOTHER if self._file is not None else End.WAIT

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


async def read_log(path: str, options: LogOptions, running: Callable[[], bool]) -> AsyncGenerator[bytes, None]:
    """Yield the requested part of a log in chunks; with `follow` until the container has ended and its log is read."""
    renderer, file = Renderer(options), OpenLogFile(path, options.follow)
    changes = _watching(path) if options.follow else None
    try:
        await asyncio.to_thread(file.open, options.tail)
        while not renderer.full:
            alive = running()  # before the read: all output of an ended container is there
            async for shown in _rest(file, renderer):
                yield shown
            if renderer.full or changes is None:
                return
            end = await asyncio.to_thread(file.at_end)
            if end is End.ANOTHER:
                renderer.reset()
            if end is End.WAIT:
                if not alive:
                    return
                await changes.wait(LOOK_S)
                await asyncio.sleep(SETTLE_S)
    finally:
        if changes is not None:
            changes.close()
        file.close()


async def _rest(file: OpenLogFile, renderer: Renderer) -> AsyncGenerator[bytes, None]:
    while not renderer.full and (data := await asyncio.to_thread(file.read)):
        if shown := renderer.feed(data):
            yield shown


def _watching(path: str) -> DirectoryChanges:
    changes = DirectoryChanges(CONTENTS, BLIND_S)
    changes.watch([Path(path).parent])
    return changes
