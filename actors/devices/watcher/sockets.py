"""Desired and actual state of plugins_registry/: the sockets in it, and which of them are registered.

`scan` reads the directory. `RegistryState` is pure: callers pass the current time in seconds. Its invariant: one step
per path at a time, and a socket that is bound anew is deregistered before it is registered again.
"""

import os
import stat
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import msgspec

from protocols.process.rates import backoff_delay

MAX_SOCKETS = 1024
MAX_DIRECTORIES = 256
MAX_DEPTH = 8


class SocketIdentity(NamedTuple):
    """Identity of a socket file. It changes when the path is bound anew, but not with a chmod."""

    device: int
    inode: int
    made_ns: int


class Scan(NamedTuple):
    """Contents of the directory and of those below it."""

    sockets: dict[Path, SocketIdentity]
    directories: list[Path]
    full: bool = False
    """The directory exceeds a limit; the rest is ignored."""


def scan(root: Path) -> Scan:
    """List sockets and directories. Blocks. Hidden files are ignored."""
    listing = Scan({}, [root])
    full = False
    for directory in listing.directories:  # grows while it is walked
        for entry in _entries(directory):
            if _is_directory(entry):
                deep = len(Path(entry.path).relative_to(root).parts) > MAX_DEPTH
                full |= deep or len(listing.directories) >= MAX_DIRECTORIES
                if not full:
                    listing.directories.append(Path(entry.path))
            elif (identity := _identity(entry)) is not None:
                full |= len(listing.sockets) >= MAX_SOCKETS
                if len(listing.sockets) < MAX_SOCKETS:
                    listing.sockets[Path(entry.path)] = identity
    return listing._replace(full=full)


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


def _identity(entry: "os.DirEntry[str]") -> SocketIdentity | None:
    """Return None if it is not a socket, or gone."""
    try:
        status = entry.stat()
    except OSError:
        return None
    return SocketIdentity(status.st_dev, status.st_ino, status.st_mtime_ns) if stat.S_ISSOCK(status.st_mode) else None


RETRY_FIRST_S, RETRY_MAX_S = 0.5, 122.0


class Operation(Enum):
    """The change from the actual to the desired state."""

    REGISTER = "register"
    DEREGISTER = "deregister"


class SocketStep(NamedTuple):
    """An operation that is due."""

    path: Path
    identity: SocketIdentity
    operation: Operation
    retried: bool = False
    """The last registration of this socket failed."""


class SocketState(msgspec.Struct):
    """Desired and actual state of one path; `due` is the monotonic time of its next step, in seconds."""

    desired: SocketIdentity | None = None
    """The socket in the directory; None = none."""
    actual: SocketIdentity | None = None
    """The registered socket."""
    busy: bool = False
    failures: int = 0
    due: float = 0.0


class RegistryState:
    """The state of all paths. Failed registrations are tried again with back-off."""

    def __init__(self) -> None:
        self._entries: dict[Path, SocketState] = {}

    def set_desired(self, sockets: Mapping[Path, SocketIdentity], now: float) -> None:
        """Set the desired state. New sockets are due at once, but the same path at most every RETRY_FIRST_S."""
        for path in sockets.keys() - self._entries.keys():
            self._entries[path] = SocketState()
        for path, entry in self._entries.items():
            identity = sockets.get(path)
            if identity != entry.desired:
                entry.desired, entry.failures = identity, 0
                entry.due = min(entry.due, now + RETRY_FIRST_S)
        self._drop_unused()

    def next_steps(self, now: float) -> list[SocketStep]:
        """Return the steps to take now. Each must be answered by `finished`."""
        steps = [step for path, entry in self._entries.items() if (step := _step(path, entry, now)) is not None]
        for step in steps:
            self._entries[step.path].busy = True
        return steps

    def finished(self, step: SocketStep, ok: bool, now: float) -> None:
        """Record the result of a step."""
        entry = self._entries[step.path]
        entry.busy = False
        if step.operation is Operation.DEREGISTER:
            entry.actual = None
        elif ok:
            entry.actual, entry.failures, entry.due = step.identity, 0, now + RETRY_FIRST_S
        else:
            entry.due = now + backoff_delay(entry.failures + 1, RETRY_FIRST_S, RETRY_MAX_S)
            entry.failures += 1
        self._drop_unused()

    def next_due(self) -> float | None:
        """Return when the next registration is due, or None."""
        return min((entry.due for entry in self._entries.values() if _waits(entry)), default=None)

    def counts(self) -> dict[Path, tuple[bool, bool]]:
        """Return for each socket whether it is registered, and whether it is desired."""
        return {path: (item.actual is not None, item.desired is not None) for path, item in self._entries.items()}

    def _drop_unused(self) -> None:
        unused = [path for path, item in self._entries.items() if not (item.desired or item.actual or item.busy)]
        for path in unused:
            del self._entries[path]


def _waits(entry: SocketState) -> bool:
    return not entry.busy and entry.actual is None and entry.desired is not None


def _step(path: Path, entry: SocketState, now: float) -> SocketStep | None:
    if entry.busy:
        return None
    if entry.actual is not None and entry.actual != entry.desired:
        return SocketStep(path, entry.actual, Operation.DEREGISTER)
    if entry.desired is not None and entry.actual is None and entry.due <= now:
        return SocketStep(path, entry.desired, Operation.REGISTER, entry.failures > 0)
    return None
