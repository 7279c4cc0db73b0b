"""Bind mounts and their ends, which the standard library lacks. Linux; blocks; raises OSError."""

import contextlib
import ctypes
import os
from pathlib import Path

from protocols.process.beneath import proc_path
from protocols.process.mountinfo import mounts_of

_BIND, _SLAVE = 0x1000, 0x80000
_DETACH, _NOFOLLOW = 0x2, 0x8
_libc = ctypes.CDLL(None, use_errno=True)


def bind(descriptor: int, place: Path, slave: bool = True) -> None:
    """Mount the open file or directory at `place`, whatever its name is by now.

    A slave receives mounts and unmounts from the original and propagates none: detaching it cannot unmount anything
    there.
    """
    target = os.fsencode(place)
    _check(_libc.mount(os.fsencode(proc_path(descriptor)), target, None, ctypes.c_ulong(_BIND), None))
    if slave:
        _check(_libc.mount(None, target, None, ctypes.c_ulong(_SLAVE), None))


def below(directory: Path) -> list[Path]:
    """Return the mount points below `directory`, newest first.

    os.path.ismount does not see a directory bound within one file system.
    """
    prefix = f"{os.path.realpath(directory)}/"
    return [Path(mounted.point) for mounted in reversed(mounts_of()) if mounted.point.startswith(prefix)]


def detach(place: Path) -> None:
    """Unmount for everybody who comes later; whoever has a file open there keeps it."""
    _check(_libc.umount2(os.fsencode(place), _DETACH | _NOFOLLOW))


def detach_below(directory: Path) -> list[Path]:
    """Detach all mounts below `directory`, and return those that stay."""
    for place in below(directory):
        with contextlib.suppress(OSError):  # it went with another one, or is not ours to detach
            detach(place)
    return below(directory)


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
