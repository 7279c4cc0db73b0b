"""CPU time of the processes of a plane, and of others by name, from /proc."""

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PREFIX = "np-"
"""Begin of the names of a plane's processes."""


def cpu_seconds(supervisor: int, names: frozenset[str] = frozenset()) -> dict[str, float]:
    """Return CPU seconds by name: of all that the supervisor started, and of processes with one of the names.

    `supervisor`: its process id, 0 for none. The kernel cuts names at 15 characters.
    """
    found: dict[str, float] = defaultdict(float)
    processes = dict(_processes())
    for pid, (name, _, seconds) in processes.items():
        if name in names or (supervisor and _descends(pid, supervisor, processes)):
            found[name.removeprefix(PREFIX)] += seconds
    return found


def _processes() -> Iterator[tuple[int, tuple[str, int, float]]]:
    """Yield id, name, parent and CPU seconds of every process."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text(errors="replace")
            except OSError:
                continue  # it has ended
            name, _, rest = text.partition("(")[2].rpartition(")")
            fields = rest.split()
            yield int(entry.name), (name, int(fields[1]), (int(fields[11]) + int(fields[12])) / TICKS)


def _descends(pid: int, ancestor: int, processes: dict[int, tuple[str, int, float]]) -> bool:
    while pid in processes and pid != ancestor:
        pid = processes[pid][1]
    return pid == ancestor
