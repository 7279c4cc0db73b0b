"""Least rights of an evaluator: no new descriptor, so no file and no network; no process, no signal to others.

The kernel holds these for the rest of the process, also against code that an expression might bring to run.
"""

import ctypes
import os
import platform
import resource
import signal
import struct

from protocols.process import linux

MEMORY = 512 * 1024 * 1024
"""Bytes of address space beyond those of the fork."""
CPU_S, WALL_S = 1.5, 4.0
"""CPU time and time of one question, after which the kernel ends the process."""
_DUMPABLE, _SECCOMP, _FILTER = 4, 22, 2
_ALLOW, _DENY, _KILL = 0x7FFF0000, 0x00050000 | 1, 0x80000000
"""Actions of a seccomp filter; denied calls fail with EPERM."""
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_FOREIGN = 0x40000000
"""Numbers from here on are those of another calling convention of the same machine."""
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_DENIED = {
    "x86_64": (
        41, 42, 43, 49, 50, 53, 56, 57, 58, 59, 62, 76, 77, 82, 83, 84, 85, 86, 87, 88, 90, 91, 92, 101, 129, 132,
        133, 165, 166, 200, 234, 235, 257, 258, 259, 263, 264, 265, 266, 268, 280, 288, 297, 310, 311, 316, 321, 322,
        424, 425, 426, 427, 434, 435, 437,
    ),
    "aarch64": (
        33, 34, 35, 36, 37, 38, 39, 40, 45, 46, 52, 53, 54, 55, 56, 88, 117, 129, 130, 131, 138, 198, 199, 200, 201,
        202, 203, 220, 221, 240, 242, 270, 271, 276, 280, 281, 424, 425, 426, 427, 434, 435, 437,
    ),
}  # fmt: skip
"""Calls that make sockets or processes, open or change files, signal or trace others, or reach into the kernel.

In the order of their numbers in asm/unistd.h: socket to execve, kill and ptrace, rename to mount, *at, bpf, io_uring.
"""


def enter(parent: int) -> None:
    """Give up all rights that evaluation does not need. Raises OSError if the kernel refuses."""
    linux.die_with_parent(signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    linux.prctl(_DUMPABLE, 0)
    with open("/proc/self/statm") as statm:
        used = int(statm.read().split()[0]) * resource.getpagesize()
    for limit, value in (
        (resource.RLIMIT_AS, used + MEMORY),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_NOFILE, 0),
    ):
        resource.setrlimit(limit, (value, value))
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS)
    _install(platform.machine())


def time_limits(on: bool) -> None:
    """Start or stop the kernel's timers of one question; they end the process even inside native code."""
    signal.setitimer(signal.ITIMER_PROF, CPU_S if on else 0)
    signal.setitimer(signal.ITIMER_REAL, WALL_S if on else 0)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def _install(machine: str) -> None:
    """Install the filter; machines without a table have the limits only."""
    if machine not in _DENIED:
        return
    code = _instructions(_ARCHITECTURES[machine], _DENIED[machine])
    program = _Program(len(code) // 8, code)
    linux.prctl(_SECCOMP, _FILTER, ctypes.addressof(program))


def _instructions(architecture: int, denied: tuple[int, ...]) -> bytes:
    """Return the BPF program: another architecture ends the process, denied numbers fail, all others pass."""
    program = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, 0)]
    program += [(_AT_LEAST, len(denied) + 1, 0, _FOREIGN)]
    program += [(_EQUAL, len(denied) - at, 0, number) for at, number in enumerate(denied)]
    program += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _DENY)]
    return b"".join(struct.pack("HBBI", *instruction) for instruction in program)
