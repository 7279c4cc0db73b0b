"""Unix sockets for outside clients: directories with one owner, stale files removed, live ones respected."""

import errno
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from protocols.errors import NodeplaneError, SettingsInvalid
from protocols.process.layout import SOCKET_PATH_LIMIT

DIRECTORY_MODE = 0o750
SOCKET_MODE = 0o600
GROUP_PASSES = stat.S_IRGRP | stat.S_IXGRP


class SocketInUse(NodeplaneError, http=409, grpc="ALREADY_EXISTS"):
    """Raised when another living process listens on the socket that we are to serve."""


def prepare_socket(path: Path) -> None:
    """Make the directory, remove a stale socket file at `path`; raises SocketInUse or SettingsInvalid."""
    check_length(path)
    prepare_directory(path.parent)
    if answers(path):
        raise SocketInUse(f"another process serves {path}; stop it or choose another --root or --kubelet-dir")
    remove_socket(path)


def check_length(path: Path) -> None:
    """Raise SettingsInvalid for a path that no socket can have."""
    if len(str(path).encode()) > SOCKET_PATH_LIMIT:
        raise SettingsInvalid(f"socket path too long ({SOCKET_PATH_LIMIT} bytes at most): {path}; use a shorter --root")


def prepare_directory(path: Path, mode: int = DIRECTORY_MODE) -> None:
    """Make a directory with exactly this mode, whatever the umask is; an existing one stays unchanged."""
    if not path.is_dir():
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(mode)


def let_group_in(directory: Path, group: int) -> None:
    """Let a group enter the directory; the rest of its mode stays."""
    os.chown(directory, -1, group)
    directory.chmod(stat.S_IMODE(directory.stat().st_mode) | GROUP_PASSES)


def remove_socket(path: Path) -> None:
    """Remove `path` when it is a socket or nothing; raises SettingsInvalid when something else stands there."""
    if not os.path.lexists(path):
        return
    if not is_socket(path):
        raise SettingsInvalid(f"{path} is not a socket; move it away and start again")
    path.unlink(missing_ok=True)


def is_socket(path: Path) -> bool:
    """Return True if the path itself is a socket; links are not followed, a missing path is none."""
    try:
        return stat.S_ISSOCK(path.lstat().st_mode)
    except OSError:
        return False


def answers(path: Path) -> bool:
    """Return True when a live process listens on `path`. Never waits: a full backlog counts as alive."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        return probe.connect_ex(str(path)) in (0, errno.EAGAIN)


@contextmanager
def private_sockets() -> Iterator[None]:
    """Create sockets in the block with mode 0600, so that nobody can connect before a chmod."""
    old = os.umask(0o777 & ~SOCKET_MODE)
    try:
        yield
    finally:
        os.umask(old)
