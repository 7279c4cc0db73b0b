"""What a start stands on, and the lock under which groups that start together settle one after another."""

import fcntl
import os
from pathlib import Path

import msgspec

from protocols.settings import Settings
from supervisor.root.lock import Held
from supervisor.startup import ports
from supervisor.tree.spec import ChildSpec


class Prepared(msgspec.Struct, frozen=True):
    """A plane, or one group of it, about to start."""

    name: str
    group: str
    """Empty for a whole plane."""
    settings: Settings
    specs: tuple[ChildSpec, ...]
    lock: Held
    port: ports.Reservation | None
    """Held by whoever runs the API processes."""

    def release(self) -> None:
        if self.port:
            self.port.release()
        self.lock.release()


class Serialised:
    """Groups that start together settle one after another."""

    def __init__(self, run_dir: Path) -> None:
        self._path = run_dir / "settings.lock"
        self._descriptor = -1

    def __enter__(self) -> None:
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)
