"""Mounts of a process's mount namespace, as Linux lists them (proc(5), /proc/pid/mountinfo).

Without pathlib, which costs the launcher of the runtime's shims 0.6 MB.
"""

import os
import re
from typing import NamedTuple

_ESCAPED = re.compile(r"\\([0-7]{3})")


class Mounted(NamedTuple):
    """One mount. A later one may hide it."""

    point: str
    """Path from the root of that process."""
    options: frozenset[str]
    """Its own, not those of the file system: `ro`, `nosuid`, `nodev`, ..."""


def mounts_of(process: str | os.PathLike[str] = "/proc/self") -> list[Mounted]:
    """Return the mounts that a process sees, oldest first; names that are not UTF-8 as `os.fsdecode` has them.

    Raises OSError.
    """
    with open(os.path.join(process, "mountinfo"), "rb") as file:
        lines = file.read().decode(errors="surrogateescape").split("\n")
    return [_parse(line.split(" ")) for line in lines if line]


def mounts_below(directory: str | os.PathLike[str]) -> list[str]:
    """Return the mount points below a directory, newest first. Raises OSError.

    os.path.ismount does not see a directory bound within one file system.
    """
    prefix = f"{os.path.realpath(directory)}/"  # the kernel's paths have no links
    return [mounted.point for mounted in reversed(mounts_of()) if mounted.point.startswith(prefix)]


def _parse(fields: list[str]) -> Mounted:
    """Octal escapes stand for bytes: space, tab, newline, backslash."""
    return Mounted(_ESCAPED.sub(lambda code: chr(int(code[1], 8)), fields[4]), frozenset(fields[5].split(",")))
