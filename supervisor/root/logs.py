"""ROOT/logs: one bounded file per actor. Writers open it with O_APPEND, so it can be copied and truncated meanwhile."""

import os
from contextlib import suppress
from pathlib import Path

from protocols.process.texts import printable
from supervisor.base.journal import WARNING, level_of

LIMIT = 8 * 1024 * 1024
TAIL = 4096
END = 64 * 1024
"""Bytes that `tail` reads."""


def path_of(logs: Path, instance: str) -> Path:
    """Return the path of an instance's log."""
    return logs / f"{instance}.log"


def rotate(logs: Path, limit: int = LIMIT) -> list[Path]:
    """Copy the last `limit` bytes of every larger file to FILE.1, truncate it, and return these files.

    Lines written in between are lost, and all lines if the disk has no room for the copy: the bound holds.
    """
    rotated = []
    for path in logs.glob("*.log"):
        if size(path) > limit:
            _copy_end(path, path.with_suffix(".log.1"), limit)
            with suppress(OSError):
                os.truncate(path, 0)
            rotated.append(path)
    return rotated


def _copy_end(path: Path, copy: Path, limit: int) -> None:
    try:
        with path.open("rb") as source, copy.open("wb") as target:
            at = source.seek(0, os.SEEK_END) - limit
            end = at + limit  # no further: its writer may be as fast
            while at < end and (copied := os.sendfile(target.fileno(), source.fileno(), at, end - at)):
                at += copied
    except OSError:
        with suppress(OSError):
            copy.unlink(missing_ok=True)


def size(path: Path) -> int:
    """Return the size of a log in bytes; 0 if there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def tail(path: Path, lines: int) -> list[str]:
    """Return the last lines of the last END bytes, made printable; [] for a log that cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - END))
            last_lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return []
    return [_shown(line) for line in last_lines[-lines:]]


def last_line(path: Path, since: int = 0) -> str:
    """Return the last non-empty line after position `since`, the reason of a crash, or why there may be none."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            since = since if since <= end else 0  # the file was rotated
            file.seek(max(since, end - TAIL))
            lines = file.read().decode(errors="replace").splitlines()
        full = os.statvfs(path).f_bavail == 0
    except OSError:
        return ""
    silence = f"the disk of {path.parent} is full" if full else ""
    return next((line.strip()[:200] for line in reversed(lines) if line.strip()), silence)


class Tail:
    """Read the lines that are added to a file, made printable: messages of plugins are logged as they came."""

    def __init__(self, path: Path, position: int = 0) -> None:
        self._path = path
        self._position = position
        self._rest = b""

    def lines(self) -> list[str]:
        now = size(self._path)
        if now < self._position:
            self._position, self._rest = 0, b""
        if now == self._position:
            return []
        with self._path.open("rb") as file:
            file.seek(self._position)
            added = file.read(LIMIT)
        self._position += len(added)
        *whole, self._rest = (self._rest + added).split(b"\n")
        return [_shown(line.decode(errors="replace")) for line in whole]


def _shown(line: str) -> str:
    return printable(line.expandtabs())


def is_warning(line: str) -> bool:
    """Return True for warnings and errors, which a plane in the foreground also prints."""
    return level_of(line) <= WARNING
