"""Open files below a directory that somebody else may be changing, without ever leaving it. Linux; blocks.

The kernel's openat2 with RESOLVE_BENEATH or RESOLVE_IN_ROOT, component by component, so that missing directories can be
made on the way:

- each component is opened below the descriptor of the one before, and never through a symbolic link;
- a link is read from its own descriptor, and its target is walked in the same way;
- `..` returns to a descriptor that is still held, and stops at the top.

Therefore nobody who exchanges a directory and a link meanwhile can lead a caller out: a path is never resolved twice.
"""

import contextlib
import errno
import os
import stat
from typing import NamedTuple

from protocols.errors import NodeplaneError

MOST_LINKS = 40
"""Symbolic links of one walk, as in the kernel."""
MOST_DEPTH = 256
"""Directories below the top; each is a descriptor held during the walk."""
MOST_PARTS = 4096
"""Components still to walk, links' targets included."""


class LeadsOut(NodeplaneError, http=400, grpc="INVALID_ARGUMENT"):
    """Raised when a path leads out of its directory, by `..`, by its name or by a link."""


class Walk(NamedTuple):
    """Options of `open_beneath` and its like: links, missing components."""

    in_root: bool = False
    """`..` at the top and absolute links stay below it, as after chroot; else they raise LeadsOut."""
    make: int | None = None
    """Mode of missing directories; None: a missing component is FileNotFoundError."""
    file: bool = False
    """With `make`: the last component, if missing, becomes an empty file."""


PLAIN = Walk()


def open_beneath(top: int, path: str, walk: Walk = PLAIN) -> int:
    """Return an O_PATH descriptor of what `path` names below the directory `top`. Raises LeadsOut, OSError."""
    walker = _Walker(top, walk)
    try:
        return walker.to(path)
    finally:
        walker.close()


def parent_beneath(top: int, path: str, walk: Walk = PLAIN) -> tuple[int, str]:
    """Return a descriptor of the parent directory, and the last component, which may not exist and is not followed."""
    head, _, name = path.rstrip("/").rpartition("/")
    if name in ("", ".", ".."):
        raise LeadsOut(f"{path!r} names no entry of a directory; give it a name of its own")
    return open_beneath(top, head, walk), name


def proc_path(descriptor: int) -> str:
    """Return a path for calls that take no descriptor (mount, chmod); it is the open file, whatever its name now is."""
    return f"/proc/self/fd/{descriptor}"


class _Walker:
    def __init__(self, top: int, walk: Walk) -> None:
        self._walk = walk
        self._held = [os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=top)]
        self._links = 0

    def to(self, path: str) -> int:
        if path.startswith("/") and not self._walk.in_root:
            raise LeadsOut(f"{path!r} is absolute; give a path below the directory")
        rest = path.split("/")[::-1]
        while rest:
            if len(rest) > MOST_PARTS:
                raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), path)
            part = rest.pop()
            if part == "..":
                self._up(path)
            elif part not in ("", "."):
                rest += self._enter(part, path, last=not set(rest) - {"", "."})
        return self._held.pop()

    def close(self) -> None:
        for descriptor in self._held:
            os.close(descriptor)
        self._held.clear()

    def _up(self, path: str) -> None:
        if len(self._held) > 1:
            os.close(self._held.pop())
        elif not self._walk.in_root:
            raise LeadsOut(f"{path!r} leads out of its directory")

    def _enter(self, part: str, path: str, last: bool) -> list[str]:
        """Step into a component; return the reversed components of its target if it is a link."""
        if len(self._held) > MOST_DEPTH:
            raise OSError(errno.ENAMETOOLONG, f"more than {MOST_DEPTH} directories deep", path)
        child = self._open(part, last)
        if not stat.S_ISLNK(os.fstat(child).st_mode):
            self._held.append(child)
            return []
        try:
            target = os.readlink("", dir_fd=child)
        finally:
            os.close(child)
        self._links += 1
        if self._links > MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        if target.startswith("/"):
            self._to_the_top(path)
        return target.split("/")[::-1]

    def _to_the_top(self, path: str) -> None:
        if not self._walk.in_root:
            raise LeadsOut(f"{path!r} leads out of its directory by an absolute link")
        for descriptor in self._held[1:]:
            os.close(descriptor)
        del self._held[1:]

    def _open(self, part: str, last: bool) -> int:
        flags, here = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, self._held[-1]
        try:
            return os.open(part, flags, dir_fd=here)
        except FileNotFoundError:
            if self._walk.make is None:
                raise
        with contextlib.suppress(FileExistsError):  # whatever another one made meanwhile is walked as such
            if last and self._walk.file:
                os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=here))
            else:
                os.mkdir(part, self._walk.make, dir_fd=here)
                return self._with_mode(os.open(part, flags, dir_fd=here))
        return os.open(part, flags, dir_fd=here)

    def _with_mode(self, made: int) -> int:
        """The umask took some of it; what another one put in the new directory's place is left alone."""
        st = os.fstat(made)
        if stat.S_ISDIR(st.st_mode) and st.st_uid == os.geteuid():
            os.chmod(proc_path(made), self._walk.make or 0)
        return made
