"""Linux calls that the standard library lacks, the process set of a container, and its cgroups."""

import contextlib
import ctypes
import errno
import functools
import operator
import os
import signal
import time
from collections.abc import Callable, Iterable

from protocols.process import linux
from protocols.process.proc import PARENT, SESSION, STARTED, pids, stat_number

_PR_CAPBSET_DROP = 24

NAMESPACES = {"mnt": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000, "pid": 0x20000000}
"""Kinds of namespaces by their names in /proc/PID/ns, with the flags of unshare."""
_SYS_OPEN_TREE, _SYS_MOUNT_SETATTR = 428, 442
_OPEN_TREE_CLONE = 1
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000

Call = Callable[[], None]

KILL_ROUNDS_S = 10.0
"""Longest time to kill descendants that do not end (uninterruptible sleep, fork bomb) before the exit is recorded."""


def restrict_recursively(target: str, flag: int) -> None:
    """Set a flag, read-only or nodev, of a mount and all mounts below it. Raises OSError; ENOSYS before Linux 5.12."""
    attributes = (ctypes.c_uint64 * 4)(flag, 0, 0, 0)  # the attributes have the numbers of mount's flags
    size, number = ctypes.c_size_t(ctypes.sizeof(attributes)), ctypes.c_long(_SYS_MOUNT_SETATTR)
    place = (_AT_FDCWD, os.fsencode(target), ctypes.c_uint(_AT_RECURSIVE))
    linux.check(linux.libc.syscall(number, *place, ctypes.byref(attributes), size))


def recursive_seal_supported() -> bool:
    """Return False before Linux 5.12."""
    try:
        restrict_recursively("", linux.RDONLY)
    except OSError as error:
        return error.errno != errno.ENOSYS
    return True


def open_read_only(path: str) -> int:
    """Open a file through a read-only mount of its own, for exec. Raises OSError; ENOSYS before Linux 5.12."""
    number, flags = ctypes.c_long(_SYS_OPEN_TREE), ctypes.c_uint(_OPEN_TREE_CLONE | os.O_CLOEXEC)
    descriptor = int(linux.libc.syscall(number, _AT_FDCWD, os.fsencode(path), flags))
    linux.check(min(descriptor, 0))
    try:
        restrict_recursively(f"/proc/self/fd/{descriptor}", linux.RDONLY)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def new_namespaces(kinds: Iterable[str]) -> None:
    """Unshare; a PID namespace is for later children of this process, of which the first has PID 1."""
    linux.unshare(functools.reduce(operator.or_, (NAMESPACES[kind] for kind in kinds)))


def enter_namespace(descriptor: int) -> None:
    """Join the namespace of a descriptor. Raises OSError."""
    linux.check(linux.libc.setns(descriptor, 0))


def set_hostname(name: bytes) -> None:
    """Set the host name of the current UTS namespace. Raises OSError."""
    linux.check(linux.libc.sethostname(name, ctypes.c_size_t(len(name))))


def pivot_root_here() -> None:
    """Make the working directory, a mount point, the root of this mount namespace and detach the old root."""
    number = {"x86_64": 155, "aarch64": 41, "riscv64": 41}.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    linux.check(linux.libc.syscall(ctypes.c_long(number), b".", b"."))
    linux.detach(".")


def drop_capability(number: int) -> None:
    """Remove a capability from the bounding set."""
    with contextlib.suppress(OSError):  # one this kernel does not know
        linux.prctl(_PR_CAPBSET_DROP, number)


def no_new_privileges() -> None:
    """Give up rights that executing a file would grant, for all later processes."""
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS)


def children() -> list[int]:
    """Return direct children of this single-threaded process, zombies included."""
    me = os.getpid()
    try:
        with open(f"/proc/self/task/{me}/children") as file:
            return [int(word) for word in file.read().split()]
    except FileNotFoundError:  # a kernel built without CONFIG_PROC_CHILDREN
        return [pid for pid in pids() if stat_number(pid, PARENT) == me]


def start_ticks(pid: int) -> int:
    """Return the start time of a process in clock ticks since boot; 0 if it is gone. It distinguishes reused PIDs."""
    return stat_number(pid, STARTED)


def kill(pid: int, number: int) -> None:
    """Send a signal; a process that is already gone is not an error."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def kill_session(leader: int) -> None:
    """Kill every process in the session of `leader`, a child of this process that was not reaped yet."""
    for pid in [pid for pid in pids() if stat_number(pid, SESSION) == leader]:
        kill(pid, signal.SIGKILL)


def reap(on_ended: Callable[[int, int], None]) -> bool:
    """Call on_ended(pid, status) for every ended child; False when there is no child at all."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
        on_ended(pid, status)


def kill_descendants(on_ended: Callable[[int, int], None], mounts: int = 0) -> None:
    """Kill until no child is left; children of a killed one are reparented here and killed in the next round.

    In a PID namespace of several containers they are reparented to its first process instead: with `mounts`, a
    descriptor of the container's mount namespace, its members are killed too.
    """
    deadline = time.monotonic() + KILL_ROUNDS_S
    pause = 0.0002
    inode = os.fstat(mounts).st_ino if mounts else 0
    while (reap(on_ended) or (inode and _members(inode))) and time.monotonic() < deadline:
        for pid in (*children(), *(_members(inode) if inode else ())):
            kill(pid, signal.SIGKILL)
        time.sleep(pause)
        pause = min(pause * 2, 0.05)


def hold_mount_namespace(pid: int) -> int:
    """Return a descriptor of a process's mount namespace; 0 if it is gone.

    While it is open, no other namespace gets the same inode: the kernel reuses those of namespaces that ended.
    """
    try:
        return os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0


def _members(inode: int) -> list[int]:
    """Return processes in a mount namespace, without zombies, which have left theirs."""
    return [pid for pid in pids() if _mount_namespace(pid) == inode]


def _mount_namespace(pid: int) -> int:
    try:
        return os.stat(f"/proc/{pid}/ns/mnt").st_ino
    except OSError:
        return 0


def handles(pid: int, number: int) -> bool:
    """Return True if a process catches, blocks or ignores a signal, or is gone."""
    try:
        with open(f"/proc/{pid}/status") as file:
            fields = dict(line.split(":", 1) for line in file)
    except (OSError, ValueError):
        return True
    return any(int(fields.get(name, "0"), 16) >> (number - 1) & 1 for name in ("SigBlk", "SigIgn", "SigCgt"))


def join_cgroups(groups: tuple[str, ...]) -> None:
    """Add the calling process to its cgroups. Raises RuntimeError: a container does not run without its limits."""
    for group in groups:
        try:
            _write(f"{group}/cgroup.procs", b"0")
        except OSError as error:
            raise RuntimeError(f"cgroup {group}: {os.strerror(error.errno or 0).lower()}") from None


def oom_kills(counter: str) -> int:
    """Return the number of OOM kills in a cgroup from its counter file."""
    try:
        with open(counter) as file:
            counts = dict(line.split() for line in file)
        return int(counts.get("oom_kill", "0"))
    except (OSError, ValueError):
        return 0


def remove_cgroups(groups: tuple[str, ...]) -> None:
    """Remove cgroups; one that still has processes stays."""
    for group in groups:
        with contextlib.suppress(OSError):
            os.rmdir(group)


def adjust_oom_score(value: int) -> None:
    """Set oom_score_adj. A lower value needs CAP_SYS_RESOURCE and is ignored without it."""
    with contextlib.suppress(OSError):
        _write("/proc/self/oom_score_adj", str(value).encode())


def _write(path: str, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)
