"""The ends of logs: of each container's newest run, and the lines that actors add to theirs."""

import os
from collections.abc import Iterator
from pathlib import Path

from protocols.process.files import open_regular

END, LINES = 4096, 20
"""Bytes and lines of a container's log that are recorded."""
PER_PASS = 16
"""Logs of containers that are read in one pass; the others wait for the next one."""
MOST = 2_000
"""Containers whose logs are watched."""
LINE = 400
"""Characters of a line."""
READ = 64 * 1024
"""Bytes of an actor's log that one pass reads; of more, the end."""
AUDIT = "audit"
"""Logs that begin so hold each request."""


class ContainerLogs:
    """Logs below a directory of `NAMESPACE_POD_UID/CONTAINER/ATTEMPT.log`."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._seen: dict[str, tuple[str, int, int]] = {}
        """File name, size and time of what was read, by key."""

    def news(self) -> tuple[dict[str, list[str]], list[str]]:
        """Return the last lines of logs that changed, by key, and the keys of logs that are gone."""
        logs = dict(self._files())
        gone = [key for key in self._seen if key not in logs]
        for key in gone:
            del self._seen[key]
        changed: dict[str, list[str]] = {}
        for key, (path, state) in logs.items():
            if self._seen.get(key) != state and len(changed) < PER_PASS:
                self._seen[key] = state
                changed[key] = last_lines(path)
        return changed, gone

    def _files(self) -> Iterator[tuple[str, tuple[Path, tuple[str, int, int]]]]:
        count = 0
        for pod in _entries(self._root):
            for container in _entries(pod):
                newest = max(_entries(container, ".log"), key=_attempt, default=None)
                if newest is not None and count < MOST:
                    count += 1
                    yield "/".join((*pod.name.split("_", 2), container.name)), (newest, _state(newest))


def _entries(directory: Path, suffix: str = "") -> list[Path]:
    try:
        return [directory / name for name in os.listdir(directory) if name.endswith(suffix)]
    except OSError:
        return []


def _attempt(path: Path) -> int:
    return int(path.stem) if path.stem.isdecimal() else -1


def _state(path: Path) -> tuple[str, int, int]:
    try:
        info = path.stat()
    except OSError:
        return path.name, 0, 0
    return path.name, info.st_size, info.st_mtime_ns


def last_lines(path: Path) -> list[str]:
    """Return the contents of the last lines of a CRI log, of at most END bytes."""
    raw, shown, begins = _end(path), b"", True
    for line in raw.split(b"\n")[:-1]:
        stamp, _, rest = line.partition(b" ")
        stream, _, rest = rest.partition(b" ")
        tags, _, content = rest.partition(b" ")
        if stamp and stream in (b"stdout", b"stderr") and tags:
            begins = tags.split(b":")[0] != b"P"
            shown += content + (b"\n" if begins else b"")
    return shown[-END:].decode(errors="replace").splitlines()[-LINES:]


def _end(path: Path) -> bytes:
    """Return the whole lines in the last bytes of a log."""
    try:
        with open_regular(path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 2 * END))
            data = file.read(2 * END)
    except OSError:
        return b""
    return data if size <= 2 * END else data.partition(b"\n")[2]


class Lines:
    """Lines that are added to the logs of actors."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._positions: dict[str, int] = {}

    def news(self) -> Iterator[tuple[str, str]]:
        for path in _entries(self._logs, ".log"):
            if not path.name.startswith(AUDIT):
                for line in self._added(path):
                    yield path.stem, line[:LINE].decode(errors="replace")

    def _added(self, path: Path) -> list[bytes]:
        size, at = _state(path)[1], self._positions.get(path.name, 0)
        at = at if at <= size else 0  # it was rotated
        if at == size:
            return []
        try:
            with open_regular(path) as file:
                file.seek(max(at, size - READ))
                data = file.read(READ)
        except OSError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._positions[path.name] = max(at, size - READ) + len(whole)
        return whole.split(b"\n")[:-1]
