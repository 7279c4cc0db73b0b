"""The audit log's files: appended to by several processes, put aside when full, bounded in number, bytes and age.

FILE.1 is the newest that was put aside, FILE.2 the one before it. Bytes win over age: of more than `files` files the
oldest goes, however young it is.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import msgspec

MIB = 1024 * 1024
DAY_S = 86400.0


class Keep(msgspec.Struct, frozen=True):
    """Retention of a log."""

    file_bytes: int = 16 * MIB
    """Size at which a file is put aside."""
    files: int = 16
    """The one that is written included: 256 MiB in all."""
    seconds: float = 30 * DAY_S
    """A file put aside before that is removed when the next one is."""


def append(path: Path, batch: list[bytes], keep: Keep) -> None:
    """Blocks. Raises OSError."""
    data = b"".join(batch)
    descriptor = _open(path)
    try:
        if os.fstat(descriptor).st_size + len(data) > keep.file_bytes:
            descriptor = _put_aside(path, descriptor, keep)
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
    finally:
        os.close(descriptor)


def _put_aside(path: Path, descriptor: int, keep: Keep) -> int:
    """Return a descriptor of the new file. The lock, and a second look, keep two processes from moving two files."""
    with _locked(path.parent):
        if path.exists() and os.path.samestat(os.fstat(descriptor), path.stat()):
            _shift(path, keep)
    fresh = _open(path)
    os.close(descriptor)
    return fresh


def _shift(path: Path, keep: Keep) -> None:
    """Rename each file to the next older number, and remove the last one and those that are too old.

    A kill in between loses nothing.
    """
    numbered = [path, *(path.with_name(f"{path.name}.{number}") for number in range(1, keep.files))]
    numbered[-1].unlink(missing_ok=True)
    for newer, older in reversed([*pairwise(numbered)]):
        if newer.exists():
            newer.replace(older)
    for old in numbered[2:]:
        if old.exists() and old.stat().st_mtime < time.time() - keep.seconds:
            old.unlink(missing_ok=True)


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
