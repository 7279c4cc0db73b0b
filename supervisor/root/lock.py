"""One supervisor per root, or one per group: flocks, which the kernel releases however their holder ends.

`nodeplane up` holds ROOT/run/plane.lock exclusively, single groups share it. The supervisor NAME holds
ROOT/run/NAME.pid, which contains its pid.
"""

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

from protocols.messages.supervisor import ROOT_NAME
from protocols.process.files import is_locked
from supervisor.base.errors import AlreadyRunning

PLANE = "plane.lock"
ATTEMPTS, RETRY_S = 50, 0.01


class SupervisorLocks:
    """The locks of this supervisor, held until its end."""

    def __init__(self, run_dir: Path, name: str) -> None:
        self._pid_file = run_dir / f"{name}.pid"
        self._descriptors: list[int] = []
        try:
            self._take(run_dir / PLANE, fcntl.LOCK_EX if name == ROOT_NAME else fcntl.LOCK_SH)
            self._take(self._pid_file, fcntl.LOCK_EX)
        except BlockingIOError:
            self._close()
            raise AlreadyRunning(_conflict(run_dir, name)) from None
        self.take_over()

    def take_over(self) -> None:
        """Record this process as the holder: the one that took them, or a fork of it."""
        own = self._descriptors[-1]
        os.ftruncate(own, 0)
        os.pwrite(own, f"{os.getpid()}\n".encode(), 0)

    @property
    def lost(self) -> bool:
        """True if the files were removed meanwhile, so that another supervisor may hold new ones."""
        return not _is_at(self._pid_file, self._descriptors[-1])

    def release(self) -> None:
        if self._descriptors and not self.lost:
            with suppress(OSError):
                self._pid_file.unlink()
        self._close()

    def hand_over(self) -> None:
        """Leave them to a fork of this process."""
        self._close()

    def _take(self, path: Path, kind: int) -> None:
        """Take the lock of the file that has this path: its last holder may remove it while this one waits."""
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._descriptors.append(descriptor)
            _take_with_retries(descriptor, kind)
            if _is_at(path, descriptor):
                return
            os.close(self._descriptors.pop())

    def _close(self) -> None:
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()


def supervisors(run_dir: Path) -> dict[str, int]:
    """Return name and pid of every running supervisor below this root."""
    pids = {}
    for path in sorted(run_dir.glob(f"{ROOT_NAME}*.pid")):
        if is_locked(path):
            with suppress(OSError, ValueError):
                pids[path.name.removesuffix(".pid")] = int(path.read_text())
    return pids


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except OSError:
        return False


def _take(descriptor: int, kind: int) -> None:
    fcntl.flock(descriptor, kind | fcntl.LOCK_NB)


def _take_with_retries(descriptor: int, kind: int) -> None:
    """Take the lock, with retries since `is_locked` of another process holds it for a moment."""
    for _ in range(ATTEMPTS):
        try:
            return _take(descriptor, kind)
        except BlockingIOError:
            time.sleep(RETRY_S)
    return _take(descriptor, kind)


def _conflict(run_dir: Path, name: str) -> str:
    others = supervisors(run_dir)
    if name in others:
        others = {name: others[name]}
    who = ", ".join(f"{other} (pid {pid})" for other, pid in others.items()) or "another supervisor"
    return f"{run_dir.parent} is already run by {who}; stop it with `nodeplane down` or use another --root"
