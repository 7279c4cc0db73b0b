"""CPUs and NUMA nodes of a container: by a cpuset cgroup, else by the affinity of its processes.

A request may name CPUs that do not exist, since a CPU went offline or it describes another machine. The existing part
is applied; if there is none, nothing is set.
"""

import contextlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from actors.runtime.cgroups.limits import CPUSET, Setting, write_control
from protocols.errors import SettingsInvalid
from protocols.node.cpulist import format_list, parse_list
from protocols.wire import cri_pb2 as pb

CPUS, MEMS = "cpuset.cpus", "cpuset.mems"


def seed(base: Path, parent: Path) -> bool:
    """Copy the parent's CPUs and nodes; in version 1 a new group has none and accepts no process."""
    for file in (CPUS, MEMS):
        try:
            if not (base / file).read_text().strip():
                write_control(base / file, (parent / file).read_text().strip())
        except OSError:
            return False
    return True


def fit(requested: list[Setting], base: Path | None) -> list[Setting]:
    """Restrict cpuset settings to what `base` has: both files or none, since version 1 needs both."""
    others = [setting for setting in requested if setting.controller != CPUSET]
    asked = {setting.file: setting.value for setting in requested if setting.controller == CPUSET}
    if base is None or not asked:
        return others
    restricted = {file: _common(asked.get(file, ""), _usable(base, file)) for file in (CPUS, MEMS)}
    if any(file in asked and not restricted[file] for file in (CPUS, MEMS)) or not all(restricted.values()):
        return others
    return [*others, *(Setting(CPUSET, file, value) for file, value in restricted.items())]


def affinity(resources: pb.LinuxContainerResources) -> tuple[int, ...]:
    """Return the requested CPUs that this process may use; empty if none is requested or available."""
    try:
        requested = parse_list(resources.cpuset_cpus)
    except SettingsInvalid:
        return ()
    return tuple(sorted(requested & os.sched_getaffinity(0)))


def move(pids: Iterable[int], cpus: Sequence[int]) -> None:
    """Set the affinity of every thread of running processes."""
    for pid in pids if cpus else ():
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                os.sched_setaffinity(int(thread), cpus)


def _usable(base: Path, file: str) -> str:
    for name in (f"{file}.effective", f"{file[:7]}effective_{file[7:]}", file):
        with contextlib.suppress(OSError):
            if text := (base / name).read_text().strip():
                return text
    return ""


def _common(requested: str, usable: str) -> str:
    """Return the intersection; all of `usable` when nothing is requested."""
    try:
        here = parse_list(usable)
        return format_list(parse_list(requested) & here if requested else here)
    except SettingsInvalid:
        return ""
