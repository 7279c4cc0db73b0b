"""Programs that a test starts beside its plane: recorded, so that the plane ends them where the test was killed.

A record is a file with the name of the process and its start time. The process leads a group of its own.
"""

import contextlib
import os
import signal
import time
from pathlib import Path

from protocols.process.proc import STARTED, stat_number

STOP_S, POLL_S = 2.0, 0.05


def record(directory: Path, pid: int) -> Path:
    """Record a process that leads its group; the caller removes the file when it has ended the process."""
    directory.mkdir(mode=0o700, exist_ok=True)
    path = directory / str(pid)
    path.write_text(str(stat_number(pid, STARTED)))
    return path


def end_all(directory: Path) -> None:
    """End the recorded processes with their groups: SIGTERM, and after STOP_S SIGKILL."""
    left = [int(path.name) for path in directory.glob("*") if _is_still(path)]
    for number in (signal.SIGTERM, signal.SIGKILL):
        left = [group for group in left if _signal(group, number)]
        deadline = time.monotonic() + STOP_S
        while left and time.monotonic() < deadline:
            time.sleep(POLL_S)
            left = [group for group in left if _signal(group, 0)]


def _is_still(path: Path) -> bool:
    """Return False if another process has the pid now. One that ended may have left children in its group."""
    return str(stat_number(int(path.name), STARTED)) in ("0", path.read_text())


def _signal(group: int, number: int) -> bool:
    """Send a signal to a group; return False if it has ended."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)
        return True
    return False
