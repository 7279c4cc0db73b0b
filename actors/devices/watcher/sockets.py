"""What lies in plugins_registry/ now: its sockets and its directories, at any depth."""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import NamedTuple

MOST_SOCKETS = 1024
MOST_DIRECTORIES = 256
DEEPEST = 8


class Stamp(NamedTuple):
    """Which socket a path leads to. A path that is bound anew has another; a chmod changes nothing."""

    device: int
    inode: int
    made_ns: int


class Scan(NamedTuple):
    sockets: dict[Path, Stamp]
    directories: list[Path]
    full: bool = False
    """There is more than we look at."""


def scan(root: Path) -> Scan:
    """Blocking. Names that begin with a dot, and what is neither socket nor directory, count for nothing."""
    found = Scan({}, [root])
    full = False
    for directory in found.directories:  # grows while it is walked
        for entry in _entries(directory):
            if _is_directory(entry):
                deep = len(Path(entry.path).relative_to(root).parts) > DEEPEST
                full |= deep or len(found.directories) >= MOST_DIRECTORIES
                if not full:
                    found.directories.append(Path(entry.path))
            elif (stamp := _stamp(entry)) is not None:
                full |= len(found.sockets) >= MOST_SOCKETS
                if len(found.sockets) < MOST_SOCKETS:
                    found.sockets[Path(entry.path)] = stamp
    return found._replace(full=full)


def _entries(directory: Path) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(directory) as entries:
            return sorted((item for item in entries if not item.name.startswith(".")), key=lambda item: item.name)
    except OSError:
        return []


def _is_directory(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _stamp(entry: "os.DirEntry[str]") -> Stamp | None:
    """None for what is no socket, or gone already."""
    try:
        status = entry.stat()
    except OSError:
        return None
    return Stamp(status.st_dev, status.st_ino, status.st_mtime_ns) if stat.S_ISSOCK(status.st_mode) else None


RETRY_FIRST_S, RETRY_MOST_S = 0.5, 122.0


class Kind(Enum):
    REGISTER = "register"
    DEREGISTER = "deregister"


class Step(NamedTuple):
    path: Path
    stamp: Stamp
    kind: Kind


@dataclass
class Entry:
    wanted: Stamp | None = None
    """What the directory shows; None = nothing."""
    actual: Stamp | None = None
    """What is registered."""
    busy: bool = False
    failures: int = 0
    due: float = 0.0


class Progress:
    def __init__(self) -> None:
        self._entries: dict[Path, Entry] = {}

    def seen(self, sockets: Mapping[Path, Stamp], now: float) -> None:
        """All there is now. A new socket is tried at once, but the same path not more often than RETRY_FIRST_S."""
        for path in sockets.keys() - self._entries.keys():
            self._entries[path] = Entry()
        for path, entry in self._entries.items():
            stamp = sockets.get(path)
            if stamp != entry.wanted:
                entry.wanted, entry.failures = stamp, 0
                entry.due = min(entry.due, now + RETRY_FIRST_S)
        self._drop()

    def begin(self, now: float) -> list[Step]:
        """What is to be done now; each is answered by `finished`."""
        steps = [step for path, entry in self._entries.items() if (step := _step(path, entry, now)) is not None]
        for step in steps:
            self._entries[step.path].busy = True
        return steps

    def finished(self, step: Step, good: bool, now: float) -> None:
        """`good` of a registration: its plugin is taken in and told so."""
        entry = self._entries[step.path]
        entry.busy = False
        if step.kind is Kind.DEREGISTER:
            entry.actual = None
        elif good:
            entry.actual, entry.failures, entry.due = step.stamp, 0, now + RETRY_FIRST_S
        else:
            entry.due = now + min(RETRY_FIRST_S * 2 ** min(entry.failures, 10), RETRY_MOST_S)
            entry.failures += 1
        self._drop()

    def next_due(self) -> float | None:
        """When a registration may be tried again; None = nothing waits for the clock."""
        return min((entry.due for entry in self._entries.values() if _waits(entry)), default=None)

    def counts(self) -> dict[Path, tuple[bool, bool]]:
        """Of each socket, whether it is registered and whether it is wanted."""
        return {path: (item.actual is not None, item.wanted is not None) for path, item in self._entries.items()}

    def _drop(self) -> None:
        over = [path for path, item in self._entries.items() if not (item.wanted or item.actual or item.busy)]
        for path in over:
            del self._entries[path]


def _waits(entry: Entry) -> bool:
    return not entry.busy and entry.actual is None and entry.wanted is not None


def _step(path: Path, entry: Entry, now: float) -> Step | None:
    if entry.busy:
        return None
    if entry.actual is not None and entry.actual != entry.wanted:
        return Step(path, entry.actual, Kind.DEREGISTER)
    if entry.wanted is not None and entry.actual is None and entry.due <= now:
        return Step(path, entry.wanted, Kind.REGISTER)
    return None
