"""ROOT/logs: one bounded file per actor. Writers hold it with O_APPEND, so it can be copied and emptied under them."""

import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

LIMIT = 8 * 1024 * 1024
TAIL = 4096
LOUD = re.compile(r"\b(WARNING|ERROR|CRITICAL|warning|error|critical)\b")


def path_of(logs: Path, instance: str) -> Path:
    return logs / f"{instance}.log"


def rotate(logs: Path, limit: int = LIMIT) -> list[Path]:
    """Copy every file past `limit` to FILE.1 (one is kept) and empty it. Lines written in between may be lost, and all
    of them when the disk takes no copy: the bound holds."""
    rotated = []
    for path in logs.glob("*.log"):
        if size(path) > limit:
            _keep(path, path.with_suffix(".log.1"))
            with suppress(OSError):
                os.truncate(path, 0)
            rotated.append(path)
    return rotated


def _keep(path: Path, copy: Path) -> None:
    try:
        shutil.copyfile(path, copy)
    except OSError:
        with suppress(OSError):
            copy.unlink(missing_ok=True)


def size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def last_line(path: Path, since: int = 0) -> str:
    """The last line that is not empty, written past position `since`; what a crashed actor had to say."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            since = since if since <= end else 0  # rotated meanwhile
            file.seek(max(since, end - TAIL))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "")


class Tail:
    """What was added to one file since the last look, in whole lines."""

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
            data = self._rest + file.read(LIMIT)
            self._position = file.tell()
        *whole, self._rest = data.split(b"\n")
        return [line.decode(errors="replace") for line in whole]


def loud(line: str) -> bool:
    """Whether a log line is worth a person's attention while the plane runs in the foreground."""
    return bool(LOUD.search(line[:120]))
