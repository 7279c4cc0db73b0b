"""Bind mounts and their ends. Blocks; raises OSError."""

import contextlib
from pathlib import Path

from protocols.process import linux
from protocols.process.beneath import proc_path
from protocols.process.mountinfo import mounts_below


def bind(descriptor: int, place: Path, slave: bool = True) -> None:
    """Mount the open file or directory at `place`, whatever its name is by now.

    A slave receives mounts and unmounts from the original and propagates none: detaching it cannot unmount anything
    there.
    """
    linux.mount(proc_path(descriptor), place, linux.BIND)
    if slave:
        linux.mount("", place, linux.SLAVE)


def detach_below(directory: Path) -> list[str]:
    """Detach all mounts below `directory`, and return those that stay."""
    for place in mounts_below(directory):
        with contextlib.suppress(OSError):  # it went with another one, or is not ours to detach
            linux.detach(place)
    return mounts_below(directory)
