"""A small disk of its own below a plane's root, that a test may fill and free again."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.plane import run

CHUNK = 64 * 1024


class SmallDisk:
    def __init__(self, path: Path) -> None:
        self._filler = path / "filler"

    def fill(self) -> None:
        """Until not one byte more is taken."""
        with self._filler.open("ab", buffering=0) as file:
            for size in (CHUNK, 1024, 1):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(bytes(size))

    def free(self) -> None:
        self._filler.unlink(missing_ok=True)


@contextlib.contextmanager
def small_disk(path: Path, mib: int) -> Iterator[SmallDisk]:
    """Mounts a tmpfs at `path`; skips with the reason where that is not permitted."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    here = dict(os.environ)
    try:
        run(["mount", "-t", "tmpfs", "-o", f"size={mib}m,mode=700", "none", str(path)], here, 60, True)
    except (AssertionError, OSError) as error:
        pytest.skip(f"cannot mount a small disk here: {error}")
    try:
        yield SmallDisk(path)
    finally:
        run(["umount", str(path)], here, 60, True)
