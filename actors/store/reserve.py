"""Space kept back on the disk, so that a store that died comes back where others have taken the last byte: to open its
file again it needs a new index of the log, and a line that says where it listens."""

import os
from contextlib import suppress
from pathlib import Path

SIZE = 256 * 1024


class Reserve:
    """A file of `SIZE` bytes that is there while the store serves, as far as the disk allows."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def release(self) -> None:
        """Before anything is opened."""
        with suppress(OSError):  # a directory that cannot be used is told of by who opens the file
            self._path.unlink()

    def keep(self) -> None:
        """Once everything is open. A disk that is too full for it is told of by the writes that fail."""
        with suppress(OSError):
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                os.write(descriptor, bytes(SIZE))
            finally:
                os.close(descriptor)
