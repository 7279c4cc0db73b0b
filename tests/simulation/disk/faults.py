"""What goes wrong with a disk: pure state that the hooks ask before they do anything."""

import errno
import os

import msgspec


class Killed(SystemExit):
    """Raised in a process that was killed within a call to the disk, and by each further call of a dead one."""


class Faults(msgspec.Struct):
    """Of one disk. Counts go down; None: no limit."""

    free: int | None = None
    """Bytes that files may still grow by."""
    failing: dict[str, int] = msgspec.field(default_factory=dict)
    """Calls that fail with EIO from now on, by operation: read, write, sync."""
    sync_seconds: float = 0.0
    """Time of an fsync."""
    calls_left: int | None = None
    """Calls that change the disk until `on_last_call`."""
    at_commit: bool = False
    """The call after the next write of the header of a WAL's frame that ends a transaction is the last."""

    def check(self, operation: str) -> None:
        """Raise EIO if this call is to fail."""
        left = self.failing.get(operation, 0)
        if left:
            self.failing[operation] = left - 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def grant(self, growth: int) -> int:
        """Return by how much a file grows that should grow by `growth`."""
        if self.free is None or growth <= 0:
            return growth
        granted = min(growth, self.free)
        self.free -= granted
        return granted

    def release(self, size: int) -> None:
        """Take back the space of a removed or shortened file."""
        if self.free is not None:
            self.free += size

    def began_commit(self) -> None:
        """Note that a transaction looks complete in the WAL from its next call on."""
        if self.at_commit:
            self.at_commit, self.calls_left = False, 1

    def due(self) -> bool:
        """Count a call that changes the disk; True if it is the last."""
        if self.calls_left is None:
            return False
        self.calls_left -= 1
        if self.calls_left > 0:
            return False
        self.calls_left = None
        return True


def full() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
