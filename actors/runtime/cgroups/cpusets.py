"""Which CPUs and NUMA nodes a container may use: by a cpuset cgroup, else by the affinity of its processes.

What is asked for may name more than this machine has (it is another machine's description, or a CPU went offline): the
part that exists is taken, and where none does nothing is set.
"""

import contextlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from actors.runtime.cgroups.limits import CPUSET, Setting, write_control
from protocols.cpulist import format_list, parse_list
from protocols.errors import SettingsInvalid
from protocols.wire import cri_pb2 as pb

CPUS, MEMS = "cpuset.cpus", "cpuset.mems"


def seed(base: Path, parent: Path) -> bool:
    """Version 1: a new group has no CPUs and takes no process until it is given its parent's."""
    for file in (CPUS, MEMS):
        try:
            if not (base / file).read_text().strip():
                write_control(base / file, (parent / file).read_text().strip())
        except OSError:
            return False
    return True


def fit(wanted: list[Setting], base: Path | None) -> list[Setting]:
    """`wanted` with the cpuset's part as this machine can do it: both files or none, since version 1 needs both."""
    others = [setting for setting in wanted if setting.controller != CPUSET]
    asked = {setting.file: setting.value for setting in wanted if setting.controller == CPUSET}
    if base is None or not asked:
        return others
    found = {file: _common(asked.get(file, ""), _usable(base, file)) for file in (CPUS, MEMS)}
    if any(file in asked and not found[file] for file in (CPUS, MEMS)) or not all(found.values()):
        return others
    return [*others, *(Setting(CPUSET, file, value) for file, value in found.items())]


def affinity(resources: pb.LinuxContainerResources) -> tuple[int, ...]:
    """CPUs the container asks for and this process may use; empty = nothing asked for, or none of them is here."""
    try:
        wanted = parse_list(resources.cpuset_cpus)
    except SettingsInvalid:
        return ()
    return tuple(sorted(wanted & os.sched_getaffinity(0)))


def move(pids: Iterable[int], cpus: Sequence[int]) -> None:
    """Every thread of running processes."""
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


def _common(wanted: str, usable: str) -> str:
    """All of `usable` when nothing is wanted."""
    try:
        here = parse_list(usable)
        return format_list(parse_list(wanted) & here if wanted else here)
    except SettingsInvalid:
        return ""
