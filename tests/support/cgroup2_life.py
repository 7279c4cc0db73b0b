"""A container's group in the kernel's own version 2 hierarchy, from its making to its end.

`unshare --mount python -m tests.support.cgroup2_life DIRECTORY` mounts the hierarchy there for itself alone, whatever
the machine has mounted where. Ends with 0 when all held, with UNABLE and the reason where there is none to be had.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from actors.runtime.cgroups import hierarchy, limits
from actors.runtime.cgroups.hierarchy import Cgroups
from actors.runtime.cgroups.pods import PodGroup
from protocols.wire import cri_pb2 as pb
from tests.support.waiting import until

UNABLE = 77
HUGE = "hugetlb"
HERE = "import os, sys; sys.path.append(sys.argv[1]);"
JOIN = "from actors.runtime.shim.system import join_cgroups; join_cgroups((sys.argv[2],));"
SLEEP = "os.execvp('sleep', ['sleep', '60'])"
FIRST = pb.LinuxContainerResources(
    cpu_period=100_000,
    cpu_quota=50_000,
    memory_limit_in_bytes=64 << 20,
    unified={"pids.max": "9", "hugetlb.2MB.max": str(4 << 20)},
)
THEN = pb.LinuxContainerResources(
    cpu_quota=-1, memory_limit_in_bytes=-1, unified={"pids.max": "max", "hugetlb.2MB.max": "max"}
)
FILES = {
    "cpu": ("cpu.max", "50000 100000", "max 100000"),
    "memory": ("memory.max", str(64 << 20), "max"),
    "pids": ("pids.max", "9", "max"),
    HUGE: ("hugetlb.2MB.max", str(4 << 20), "max"),
}
"""By controller: the file, what the first resources make of it, and what lifting the limits does."""


def unable(reason: str) -> None:
    print(reason)
    sys.exit(UNABLE)


def mounted(directory: Path) -> None:
    done = subprocess.run(
        ["mount", "-t", "cgroup2", "none", str(directory)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        unable(f"no cgroup v2 hierarchy can be mounted: {done.stderr.strip()}")


@contextlib.contextmanager
def left_as_it_was(top: Path) -> Iterator[None]:
    """What is handed on to groups below the top is the machine's."""
    control = top / "cgroup.subtree_control"
    before = set(control.read_text().split())
    try:
        yield
    finally:
        for name in set(control.read_text().split()) - before:
            with contextlib.suppress(OSError):
                control.write_text(f"-{name}")


def found_in(directory: Path) -> hierarchy.Hierarchy:
    """Where version 1 has all controllers we know, one of the others does."""
    mounts = directory.with_suffix(".mounts")
    mounts.write_text(f"none {directory} cgroup2 rw 0 0\n")
    found = hierarchy.find_hierarchy(directory, hierarchy.KernelFiles(mounts))
    if found is None:
        unable("the cgroup v2 hierarchy here has no controller that may be used, or no group may be made in it")
    assert found is not None
    assert found.unified
    return found


def shown(group: Path, bases: dict[str, Path], turn: int) -> None:
    for controller in bases.keys() & FILES.keys():
        file, *values = FILES[controller]
        with contextlib.suppress(FileNotFoundError):  # a kernel without pages of that size
            assert (group / file).read_text().strip() == values[turn], (file, (group / file).read_text())


def group_of(pid: int) -> str:
    lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    return next(line.rpartition("/")[2] for line in lines if line.startswith("0:"))


def joined(group: Path) -> "subprocess.Popen[bytes]":
    """A process that puts itself there as a container's first one does."""
    home = str(Path(__file__).parents[2])
    process = subprocess.Popen([sys.executable, "-I", "-S", "-c", f"{HERE} {JOIN} {SLEEP}", home, str(group)])
    until(f"a process in {group}", lambda: group_of(process.pid), 20, 0.01, good=lambda name: name == group.name)
    return process


def life(directory: Path, found: hierarchy.Hierarchy) -> None:
    cgroups, base = Cgroups(directory, found), next(iter(found.bases.values()))
    assert cgroups.describe().startswith("limits by cgroup v2: ")
    member = cgroups.make("c1", FIRST)
    process = joined(base / "c1")
    try:
        assert member.groups == [str(base / "c1")]
        changed(cgroups, found, process.pid)
    finally:
        process.kill()
        process.wait()
        cgroups.close()
    assert not base.exists()


def changed(cgroups: Cgroups, found: hierarchy.Hierarchy, pid: int) -> None:
    base = next(iter(found.bases.values()))
    shown(base / "c1", found.bases, 0)
    assert group_of(pid) == "c1"
    cgroups.update("c1", THEN, [pid])
    shown(base / "c1", found.bases, 1)
    cgroups.remove("c1")
    assert group_of(pid) == "c1", "who lives there keeps it"
    cgroups.update("c2", FIRST, [pid])
    assert group_of(pid) == "c2", "a first limit moves who runs already"
    pod = PodGroup("kubepods/burstable/podx")
    assert cgroups.make("c3", FIRST, pod).views == ((str(base / pod.parent / "c3"), ""),)
    shown(base / pod.parent / "c3", found.bases, 0)
    cgroups.remove("c3", pod)
    assert not (base / "kubepods").exists(), "groups of pods go with their containers"
    cgroups.make("c4", FIRST, pod)
    cgroups.sweep(["c2"])
    assert [path.name for path in base.iterdir() if path.is_dir()] == ["c2"]


def main(directory: Path) -> None:
    mounted(directory)
    if not os.access(directory / "cgroup.procs", os.W_OK):
        unable("the cgroup v2 hierarchy here is read-only")
    known = (*limits.CONTROLLERS, HUGE)
    with (
        patch.object(limits, "CONTROLLERS", known),
        patch.object(hierarchy, "CONTROLLERS", known),
        left_as_it_was(directory),
    ):
        life(directory, found_in(directory))
    print("held")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
