"""One supervisor per root, or one per group side by side: flocks that the kernel drops however their holder ends.

ROOT/run/plane.lock is held exclusively by `nodeplane up` and shared by single groups; ROOT/run/NAME.pid is held by the
supervisor NAME and holds its pid.
"""

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

from protocols.messages.supervisor import ROOT_NAME
from supervisor.base.errors import AlreadyRunning

PLANE = "plane.lock"
LOOKS, LOOK_S = 50, 0.01


class Held:
    """The locks of this supervisor; kept for its whole life."""

    def __init__(self, run_dir: Path, name: str) -> None:
        self._pid_file = run_dir / f"{name}.pid"
        self._descriptors: list[int] = []
        try:
            self._take(run_dir / PLANE, fcntl.LOCK_EX if name == ROOT_NAME else fcntl.LOCK_SH)
            own = self._take(self._pid_file, fcntl.LOCK_EX)
        except BlockingIOError:
            self._close()
            raise AlreadyRunning(_refusal(run_dir, name)) from None
        os.ftruncate(own, 0)
        os.pwrite(own, f"{os.getpid()}\n".encode(), 0)

    @property
    def lost(self) -> bool:
        """Whether the files were removed under us: somebody else may hold their successors."""
        try:
            there = os.stat(self._pid_file)
        except OSError:
            return True
        return not os.path.samestat(there, os.fstat(self._descriptors[-1]))

    def release(self) -> None:
        if self._descriptors and not self.lost:
            with suppress(OSError):
                self._pid_file.unlink()
        self._close()

    def _take(self, path: Path, kind: int) -> int:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._descriptors.append(descriptor)
        _insist(descriptor, kind)
        return descriptor

    def _close(self) -> None:
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()


def supervisors(run_dir: Path) -> dict[str, int]:
    """Name and pid of every living supervisor below this root."""
    found = {}
    for path in sorted(run_dir.glob(f"{ROOT_NAME}*.pid")):
        if held(path):
            with suppress(OSError, ValueError):
                found[path.name.removesuffix(".pid")] = int(path.read_text())
    return found


def held(path: Path) -> bool:
    """Whether some process holds the flock of this file. Never creates it."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        _take(descriptor, fcntl.LOCK_SH)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _take(descriptor: int, kind: int) -> None:
    fcntl.flock(descriptor, kind | fcntl.LOCK_NB)


def _insist(descriptor: int, kind: int) -> None:
    """Like _take, but outlasts somebody who only looks (`held` takes the lock for a moment)."""
    for _ in range(LOOKS):
        try:
            return _take(descriptor, kind)
        except BlockingIOError:
            time.sleep(LOOK_S)
    return _take(descriptor, kind)


def _refusal(run_dir: Path, name: str) -> str:
    others = supervisors(run_dir)
    if name in others:
        others = {name: others[name]}
    who = ", ".join(f"{other} (pid {pid})" for other, pid in others.items()) or "another supervisor"
    return f"{run_dir.parent} is already run by {who}; stop it with `nodeplane down` or use another --root"
