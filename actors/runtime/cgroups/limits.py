"""From CRI resources to the values of cgroup control files. Pure, except for `write_control`."""

import os
from pathlib import Path
from typing import NamedTuple

from protocols.wire import cri_pb2 as pb


def write_control(path: Path, value: str) -> None:
    """Write a control file; one that the kernel has not created is an error. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, value.encode())
    finally:
        os.close(descriptor)


CPU, MEMORY, PIDS, CPUSET = "cpu", "memory", "pids", "cpuset"
CONTROLLERS = (CPU, MEMORY, PIDS, CPUSET)


def enable(group: Path) -> list[str]:
    """Enable controllers for the groups below `group` and return those that are enabled."""
    try:
        there = set((group / "cgroup.controllers").read_text().split()) & set(CONTROLLERS)
        on = set((group / "cgroup.subtree_control").read_text().split())
        if there - on:
            (group / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in sorted(there - on)))
        return sorted(there & set((group / "cgroup.subtree_control").read_text().split()))
    except OSError:
        return []


NO_SHARES = 2
"""Shares of a pod without a CPU request: not worth a cgroup, since joining one takes milliseconds."""
MOST_SHARES, _MOST_WEIGHT = 262_144, 10_000
_PERIOD_US = 100_000


class Setting(NamedTuple):
    """Value of one control file. Without a `needed` one the limit does not hold; kernels may lack the others."""

    controller: str
    file: str
    value: str
    needed: bool = True


def settings(resources: pb.LinuxContainerResources, unified: bool) -> list[Setting]:
    """Return settings in an order that the kernel accepts. A resource of 0 is unset, -1 removes a limit."""
    return _cpu(resources, unified) + _memory(resources, unified) + _extra(resources, unified) + placement(resources)


def placement(resources: pb.LinuxContainerResources) -> list[Setting]:
    """Return CPUs and NUMA nodes, which have the same names in both versions."""
    wanted = (("cpuset.cpus", resources.cpuset_cpus), ("cpuset.mems", resources.cpuset_mems))
    return [Setting(CPUSET, file, value) for file, value in wanted if value]


def weight(shares: int) -> int:
    """Convert shares of version 1 (2 to 262144) to a weight of version 2 (1 to 10000)."""
    shares = min(max(shares, NO_SHARES), MOST_SHARES)
    return 1 + (shares - NO_SHARES) * (_MOST_WEIGHT - 1) // (MOST_SHARES - NO_SHARES)


SHARES_FILES = {True: "cpu.weight", False: "cpu.shares"}
"""Control file of CPU shares, by whether the hierarchy is unified."""


def scaled(shares: int, unified: bool) -> int:
    """Return shares as SHARES_FILES take them."""
    return weight(shares) if unified else max(shares, NO_SHARES)


def _cpu(resources: pb.LinuxContainerResources, unified: bool) -> list[Setting]:
    quota, period, shares = resources.cpu_quota, resources.cpu_period or _PERIOD_US, resources.cpu_shares
    cpu_settings = []
    if shares > NO_SHARES:
        cpu_settings.append(Setting(CPU, SHARES_FILES[unified], str(scaled(shares, unified))))
    if quota and unified:
        cpu_settings.append(Setting(CPU, "cpu.max", f"{quota if quota > 0 else 'max'} {period}"))
    elif quota:
        cpu_settings.append(Setting(CPU, "cpu.cfs_period_us", str(period)))
        cpu_settings.append(Setting(CPU, "cpu.cfs_quota_us", str(max(quota, -1))))
    return cpu_settings


def _memory(resources: pb.LinuxContainerResources, unified: bool) -> list[Setting]:
    """Limit memory including swap unless requested otherwise; in version 2 an OOM kill ends all processes."""
    limit = resources.memory_limit_in_bytes
    if not limit:
        return []
    swap = resources.memory_swap_limit_in_bytes or limit
    if not unified:
        files = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
        return [Setting(MEMORY, files[0], str(limit)), Setting(MEMORY, files[1], str(swap), needed=False)]
    return [
        Setting(MEMORY, "memory.max", _v2(limit)),
        Setting(MEMORY, "memory.swap.max", _v2(max(0, swap - limit) if swap > 0 else -1), needed=False),
        Setting(MEMORY, "memory.oom.group", "1", needed=False),
    ]


def _v2(value: int) -> str:
    return str(value) if value >= 0 else "max"


def _extra(resources: pb.LinuxContainerResources, unified: bool) -> list[Setting]:
    """Return the request's `unified` map: file names of version 2, of which version 1 has pids.max only."""
    entries = sorted(resources.unified.items())
    wanted = [(file, value) for file, value in entries if file.partition(".")[0] in CONTROLLERS and "/" not in file]
    return [Setting(file.partition(".")[0], file, value) for file, value in wanted if unified or file == "pids.max"]
