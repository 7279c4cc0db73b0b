"""Lines of a CRI log file, and what of them a reader gets to see. Pure.

A line is `<time> <stdout|stderr> <tags> <content>`; tag P says that the output line goes on in the next one of its
stream, F that it ends here. What does not parse is skipped: a torn line after a full disk hides no other.
"""

import calendar
import re
import time
from typing import NamedTuple

from actors.podworker.streaming.types import LogOptions

LONGEST = 1024 * 1024
"""Bytes of one file line; a longer one is no log line and is dropped."""


class Line(NamedTuple):
    stamp: bytes
    stream: bytes
    partial: bool
    content: bytes


def parse(raw: bytes) -> Line | None:
    """`raw` without its newline; None when it is no log line."""
    parts = raw.split(b" ", 3)
    if len(parts) < 3 or parts[1] not in (b"stdout", b"stderr") or not parts[2]:
        return None
    content = parts[3] if len(parts) == 4 else b""
    return Line(parts[0], parts[1], parts[2].split(b":")[0] == b"P", content)


class Renderer:
    """Bytes of the file in, bytes for the reader out. `full` once the byte limit is reached."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._left = options.limit
        self._rest = b""
        self._wanted = options.stream.encode()
        self._inside: dict[bytes, bool] = {}
        """Streams in the middle of an output line."""
        self._old: dict[bytes, bool] = {}
        """Whether the output line a stream is in began before `since`."""
        self.full = options.limit == 0

    def feed(self, data: bytes) -> bytes:
        *raw, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LONGEST:
            self._rest = b""
        return self._limited(b"".join(self._shown(line) for line in map(parse, raw) if line is not None))

    def reset(self) -> None:
        """The file was replaced: what it had not finished will not be."""
        self._rest = b""

    def _shown(self, line: Line) -> bytes:
        begins = not self._inside.get(line.stream, False)
        if begins:
            self._old[line.stream] = self._is_old(line.stamp)
        self._inside[line.stream] = line.partial
        if self._old[line.stream] or (self._wanted and line.stream != self._wanted):
            return b""
        stamp = line.stamp + b" " if begins and self._options.timestamps else b""
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


_STAMP = re.compile(rb"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d\d):(\d\d))$")


def stamp_ns(stamp: bytes) -> int | None:
    """Nanoseconds since the epoch of an RFC 3339 time with up to nine digits; None when it is none."""
    found = _STAMP.match(stamp)
    if found is None:
        return None
    whole, digits, sign, hours, minutes = found.groups()
    try:
        seconds = calendar.timegm(time.strptime(whole.decode().upper(), "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return None
    offset = (int(hours) * 60 + int(minutes)) * 60 * (-1 if sign == b"-" else 1) if sign else 0
    return (seconds - offset) * 1_000_000_000 + int((digits or b"0").ljust(9, b"0"))
