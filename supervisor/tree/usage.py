"""What a silent process does, as the kernel sees it."""

import os
from pathlib import Path

import msgspec

_TICKS = os.sysconf("SC_CLK_TCK")


class Usage(msgspec.Struct, frozen=True):
    cpu_s: float
    """CPU seconds that all its threads used so far."""
    runnable: bool
    """Its main thread executes, or waits only for a CPU."""


def usage_of(pid: int) -> Usage | None:
    """Return the usage of a process; None if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return Usage((int(fields[11]) + int(fields[12])) / _TICKS, fields[0] == "R")
