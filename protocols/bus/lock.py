"""One process per name: an flock beside the endpoints, since a second bind of an ipc path would steal it silently."""

import fcntl
import os
import time
from pathlib import Path

from protocols.bus.errors import NameTaken

EPOCH_LIMIT = 2**62


class NameLock:
    """Holds RUN/NAME.lock; the file says `PID EPOCH`. The kernel frees it when the process dies, however it dies."""

    def __init__(self, run_dir: Path, name: str) -> None:
        self._path = run_dir / f"{name}.lock"
        self._name = name
        self._descriptor = -1

    def take(self) -> int:
        """Take the lock and return this life's epoch, larger than that of any life before. Raises NameTaken."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder, _ = _read(descriptor)
            os.close(descriptor)
            raise NameTaken(
                f"{self._name} is running already as pid {holder} ({self._path}); stop it or use another --root"
            ) from None
        epoch = max(time.time_ns(), _read(descriptor)[1] + 1)
        text = f"{os.getpid()} {epoch}\n".encode()
        os.pwrite(descriptor, text, 0)
        os.ftruncate(descriptor, len(text))
        self._descriptor = descriptor
        return epoch

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _read(descriptor: int) -> tuple[int, int]:
    """(pid, epoch) of the file's last holder; zeros when it holds something else."""
    words = os.pread(descriptor, 64, 0).split()
    try:
        pid, epoch = int(words[0]), int(words[1])
    except (IndexError, ValueError):
        return 0, 0
    return (pid, epoch) if 0 <= epoch < EPOCH_LIMIT else (pid, 0)
