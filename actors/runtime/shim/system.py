"""The few Linux calls the standard library does not have, and the process set of a container."""

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38

_CLONE_NEWNS = 0x20000

Call = Callable[[], None]

_libc = ctypes.CDLL(None, use_errno=True)

KILL_ROUNDS_S = 10.0
"""How long a process set that does not die (uninterruptible sleep, fork bomb) is fought before the exit is recorded."""


def prctl(option: int, value: int = 1) -> None:
    _check(_libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0))


def mount(source: str, target: str, flags: int) -> None:
    _check(_libc.mount(os.fsencode(source), os.fsencode(target), None, ctypes.c_ulong(flags), None))


def new_mount_namespace() -> None:
    _check(_libc.unshare(_CLONE_NEWNS))


def enter_mount_namespace(descriptor: int) -> None:
    _check(_libc.setns(descriptor, _CLONE_NEWNS))


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def die_with_parent() -> None:
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_descendants() -> None:
    """Orphans below this process become its children instead of init's."""
    prctl(_PR_SET_CHILD_SUBREAPER)


def no_new_privileges() -> None:
    prctl(_PR_SET_NO_NEW_PRIVS)


def set_name(name: str) -> None:
    """What `ps -o comm` shows; 15 bytes at most."""
    buffer = ctypes.create_string_buffer(name.encode()[:15])
    prctl(_PR_SET_NAME, ctypes.addressof(buffer))


def children() -> list[int]:
    """Direct children of this single-threaded process, zombies included."""
    me = os.getpid()
    try:
        with open(f"/proc/self/task/{me}/children") as file:
            return [int(word) for word in file.read().split()]
    except FileNotFoundError:  # a kernel built without CONFIG_PROC_CHILDREN
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _parent(pid) == me]


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except OSError:
        return 0


def start_ticks(pid: int) -> int:
    """Start time of a process in clock ticks since boot, which tells it from a later one of the same pid; 0 if gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except OSError:
        return 0


def kill(pid: int, number: int) -> None:
    """Send a signal; a process that is gone already is not an error."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def kill_session(leader: int) -> None:
    """Kill every process of the session that `leader`, a child of ours that was not reaped yet, founded."""
    for pid in [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _session(pid) == leader]:
        kill(pid, signal.SIGKILL)


def _session(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[3])
    except OSError:
        return 0


def reap(seen: Callable[[int, int], None]) -> bool:
    """Collect every ended child as seen(pid, status); False when there is no child at all."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
        seen(pid, status)


def kill_descendants(seen: Callable[[int, int], None]) -> None:
    """Kill until no child is left: what a killed one leaves behind becomes ours, and is killed in the next round."""
    deadline = time.monotonic() + KILL_ROUNDS_S
    pause = 0.0002
    while reap(seen) and time.monotonic() < deadline:
        for pid in children():
            kill(pid, signal.SIGKILL)
        time.sleep(pause)
        pause = min(pause * 2, 0.05)
