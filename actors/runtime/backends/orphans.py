"""What a killed shim may have left: the session of its container, told apart from strangers by start time and boot."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from actors.runtime.shim.system import start_ticks

_SESSION_FIELD = 3  # of /proc/PID/stat, counted behind the closing bracket of the name


def boot_id() -> str:
    """Differs after each start of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def kill_process(pid: int) -> None:
    if pid > 0:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def kill_session(leader: int, ticks: int, boot: str) -> int:
    """Kill every process of the session that `leader` founded; how many there were. Reads all of /proc: for a thread.

    A session's number is not given again while a member lives, so members without a leader are the old leader's.
    """
    if leader <= 0 or boot != boot_id() or start_ticks(leader) not in (0, ticks):
        return 0
    found = [pid for pid in _pids() if _session(pid) == leader]
    for pid in found:
        kill_process(pid)
    return len(found)


def _pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _session(pid: int) -> int:
    try:
        data = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0
    return int(data.rpartition(b")")[2].split()[_SESSION_FIELD])
