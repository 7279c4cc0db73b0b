"""What lies in plugins_registry/ now: its sockets and its directories, at any depth."""

import os
import stat
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
