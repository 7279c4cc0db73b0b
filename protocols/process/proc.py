"""Facts from /proc: the fields of /proc/PID/stat, sizes of memory, and the boot of the machine.

A process's name may hold any bytes, brackets and blanks too: fields are counted behind its last bracket, and nothing of
them is decoded.
"""

import os
import re

STATE, PARENT, GROUP, SESSION = 0, 1, 2, 3
MINOR_FAULTS, MAJOR_FAULTS = 7, 9
USER, SYSTEM, CHILDREN_USER, CHILDREN_SYSTEM, STARTED = 11, 12, 13, 14, 19
"""CPU times, and the start of the process since the boot, in TICKS; a start time distinguishes reused pids."""
RESIDENT = 21
"""In pages."""
TICKS = os.sysconf("SC_CLK_TCK")
"""Clock ticks a second."""
_SIZE = re.compile(r"\b(\w+):\s+(\d+) kB", re.ASCII)


def read_text(path: str | os.PathLike[str]) -> str:
    """Return a file of the kernel without blanks around it, "" if it cannot be read."""
    try:
        with open(path, errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def sizes(path: str | os.PathLike[str]) -> dict[str, int]:
    """Return the bytes that a meminfo or smaps_rollup lists by name; none if it cannot be read."""
    return {name: int(kib) * 1024 for name, kib in _SIZE.findall(read_text(path))}


def pids() -> list[int]:
    """Return all processes of the machine."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def stat_fields(pid: int) -> list[bytes]:
    """Return the fields behind the name of a process, none if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def stat_number(pid: int, field: int) -> int:
    """Return a field of a process; 0 if it is gone."""
    fields = stat_fields(pid)
    return int(fields[field]) if fields else 0


def boot_id() -> str:
    """Return the id of this boot of the machine, "" if the kernel has none: what an earlier one recorded has ended."""
    return read_text("/proc/sys/kernel/random/boot_id")


def cpu_s(fields: list[bytes]) -> float:
    """Return the CPU seconds of a process and all its threads, by its fields."""
    return (int(fields[USER]) + int(fields[SYSTEM])) / TICKS
