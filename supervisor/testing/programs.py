"""Programs that a test starts beside its plane: recorded, so that the plane ends them where the test was killed.

A record is a file with the name of the process and its start time. The process leads a group of its own.
"""

import contextlib
import os
import signal
import time
from pathlib import Path

STOP_S, POLL_S = 2.0, 0.05
STARTED = 19
"""Position of the start time in /proc/PID/stat, behind the name of the program."""


def record(directory: Path, pid: int) -> Path:
    """Record a process that leads its group; the caller removes the file when it has ended the process."""
    directory.mkdir(mode=0o700, exist_ok=True)
    path = directory / str(pid)
    path.write_text(_start_time(pid))
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
    return _start_time(int(path.name)) in ("", path.read_text())


def _start_time(pid: int) -> str:
    """Return the start time of a process in ticks; "" if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[STARTED]
    except OSError:
        return ""


def _signal(group: int, number: int) -> bool:
    """Send a signal to a group; return False if it has ended."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)
        return True
    return False
