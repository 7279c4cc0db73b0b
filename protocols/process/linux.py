"""Linux calls that the standard library lacks; each raises OSError.

Without pathlib, which costs the launcher of the runtime's shims 0.6 MB.
"""

import ctypes
import os

PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 15, 36, 38
RDONLY, NOSUID, NODEV, NOEXEC = 1, 2, 4, 8
BIND, RECURSIVE, SLAVE = 0x1000, 0x4000, 0x80000
"""Flags of mounts."""
_DETACH, _NOFOLLOW = 0x2, 0x8
libc = ctypes.CDLL(None, use_errno=True)


def check(result: int, call: str = "") -> None:
    """Raise the error of a call that returned anything but 0; it names the call if that is given."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}" if call else os.strerror(number))


def prctl(option: int, value: int = 1, more: int = 0) -> None:
    """Change an attribute of this process; `value` and `more` may be addresses."""
    check(libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(more), 0, 0), f"prctl({option})")


def die_with_parent(signal: int) -> None:
    """Ask for a signal when the thread that started this process ends; the end of one before is not noticed."""
    prctl(PR_SET_PDEATHSIG, signal)


def adopt_descendants() -> None:
    """Become a subreaper: orphaned descendants become children of this process instead of init's."""
    prctl(PR_SET_CHILD_SUBREAPER)


def set_name(name: str) -> None:
    """Set the name that `ps -o comm` and `top` show, at most 15 bytes."""
    buffer = ctypes.create_string_buffer(name.encode()[:15])
    prctl(PR_SET_NAME, ctypes.addressof(buffer))


def unshare(flags: int) -> None:
    """Leave namespaces for new ones; a PID namespace is for later children, of which the first has PID 1."""
    check(libc.unshare(flags))


def mount(source: str, target: str | os.PathLike[str], flags: int, kind: str = "", options: str = "") -> None:
    """Mount a file system or a directory; empty texts of kind and options are passed as NULL."""
    words = [os.fsencode(text) if text else None for text in (kind, options)]
    check(libc.mount(os.fsencode(source), os.fsencode(target), words[0], ctypes.c_ulong(flags), words[1]))


def detach(target: str | os.PathLike[str]) -> None:
    """Unmount for everything that opens `target` later; whoever has a file open there keeps it. Follows no link."""
    check(libc.umount2(os.fsencode(target), _DETACH | _NOFOLLOW))
