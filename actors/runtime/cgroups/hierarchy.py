"""Cgroups of the containers: find a writable hierarchy, create groups before a start, update and remove them.

A container without limits has no group. Its processes join their groups themselves, before they execute the user's
program. Only directories named after this runtime's state directory are changed.
"""

import contextlib
import hashlib
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from actors.runtime.cgroups import cpusets
from actors.runtime.cgroups.cpusets import seed
from actors.runtime.cgroups.limits import (
    CONTROLLERS,
    CPU,
    CPUSET,
    MEMORY,
    Setting,
    placement,
    settings,
    weight,
    write_control,
)
from protocols.wire import cri_pb2 as pb

PREFIX = "nodeplane-"


class Hierarchy(NamedTuple):
    """Writable hierarchy. `bases`: directory of the containers' groups by controller, the same for all in version 2."""

    unified: bool
    bases: dict[str, Path]


class KernelFiles(NamedTuple):
    """Files of the kernel that describe cgroups; tests have their own."""

    mounts: Path = Path("/proc/self/mounts")
    membership: Path = Path("/proc/self/cgroup")


def find_hierarchy(root: Path, files: KernelFiles = KernelFiles()) -> Hierarchy | None:  # noqa: B008 # immutable
    """Find a hierarchy to create groups in, named after the state directory `root`; None where there is none."""
    name = PREFIX + hashlib.sha256(os.fsencode(root)).hexdigest()[:8]
    try:
        mounts = [line.split() for line in files.mounts.read_text().splitlines()]
        membership = [line.split(":", 2) for line in files.membership.read_text().splitlines()]
    except OSError:
        return None
    own = {controller: path.lstrip("/") for _, listed, path in membership for controller in listed.split(",")}
    for mount in (Path(fields[1]) for fields in mounts if fields[2] == "cgroup2"):
        if bases := _unified(mount, own.get("", ""), name):
            return Hierarchy(True, bases)
    bases = {}
    for fields in (fields for fields in mounts if fields[2] == "cgroup"):
        for controller in set(CONTROLLERS) & set(fields[3].split(",")):
            base = _legacy(Path(fields[1]), own.get(controller, ""), name)
            if base is not None and (controller != CPUSET or seed(base, base.parent)):
                bases[controller] = base
    return Hierarchy(False, bases) if bases else None


def _legacy(mount: Path, own: str, name: str) -> Path | None:
    """Create the base below the own group, or at the top: in a container the own group may not be mounted."""
    for parent in (mount / own, mount):
        if (parent / "cgroup.procs").exists() and (base := _make(parent / name)):
            return base
    return None


def _unified(mount: Path, own: str, name: str) -> dict[str, Path]:
    """Create the base in the topmost writable group with controllers: groups with processes cannot delegate them."""
    for parent in _ancestors(mount, own):
        if not os.access(parent / "cgroup.procs", os.W_OK) or (base := _make(parent / name)) is None:
            continue
        _enable(parent)
        if got := _enable(base):
            return dict.fromkeys(got, base)
        with contextlib.suppress(OSError):
            base.rmdir()
    return {}


def _ancestors(mount: Path, own: str) -> Iterator[Path]:
    yield mount
    for part in Path(own).parts:
        mount = mount / part
        yield mount


def _enable(group: Path) -> list[str]:
    """Enable controllers for the groups below `group` and return those that are enabled."""
    try:
        there = set((group / "cgroup.controllers").read_text().split()) & set(CONTROLLERS)
        on = set((group / "cgroup.subtree_control").read_text().split())
        if there - on:
            (group / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in sorted(there - on)))
        return sorted(there & set((group / "cgroup.subtree_control").read_text().split()))
    except OSError:
        return []


def _make(base: Path) -> Path | None:
    try:
        base.mkdir(exist_ok=True)
    except OSError:
        return None
    return base if os.access(base, os.W_OK) else None


_LOG = logging.getLogger("runtime")


class Membership(NamedTuple):
    """Cgroups that the processes of a container join.

    `oom`: file with the counter of OOM kills, empty without a memory limit. `cpus`: affinity, where no cpuset sets it.
    """

    groups: list[str]
    oom: str
    cpus: Sequence[int] = ()


NO_CGROUPS = Membership([], "")


class Cgroups:
    """Groups of all containers. Without a hierarchy the methods do nothing."""

    def __init__(self, root: Path, found: Hierarchy | None = None) -> None:
        self._hierarchy = found or find_hierarchy(root)
        if self._hierarchy is not None:
            self._set_total_weight()

    def describe(self) -> str:
        """Return one line for users."""
        if self._hierarchy is None:
            return "limits are not enforced: no writable cgroup hierarchy"
        version = 2 if self._hierarchy.unified else 1
        return f"limits by cgroup v{version}: {' '.join(sorted(self._hierarchy.bases))}"

    def make(self, id: str, resources: pb.LinuxContainerResources) -> Membership:
        """Create the groups of a container. A limit that cannot be set is logged, and left out."""
        cpus = self.affinity(resources)
        if self._hierarchy is None:
            return Membership([], "", cpus)
        groups = self._apply(id, self._settings(resources))
        return Membership([str(path) for path in groups], self._oom_file(id) if groups else "", cpus)

    def update(self, id: str, resources: pb.LinuxContainerResources, pids: Iterable[int]) -> str:
        """Update the limits of a running container, and move its processes to groups that are new.

        Return why its memory could not be limited (it has more than that in use); empty if it was.
        """
        pids = list(pids)
        cpusets.move(pids, self.affinity(resources))
        if self._hierarchy is None:
            return ""
        before = {base / id for base in self._hierarchy.bases.values() if (base / id).exists()}
        wanted = self._settings(resources)
        for group in set(self._apply(id, wanted)) - before:
            for pid in pids:
                with contextlib.suppress(OSError):
                    (group / "cgroup.procs").write_text(str(pid))
        return self._memory_limit_error(id, wanted)

    def affinity(self, resources: pb.LinuxContainerResources) -> tuple[int, ...]:
        """Return the CPU affinity to set for its processes; empty if a cpuset does it or none is requested."""
        if self._hierarchy is not None and cpusets.fit(placement(resources), self._hierarchy.bases.get(CPUSET)):
            return ()
        return cpusets.affinity(resources)

    def remove(self, id: str) -> None:
        """Remove the groups of an ended container. Its shim does the same, in either order."""
        for base in self._bases():
            with contextlib.suppress(OSError):
                (base / id).rmdir()

    def sweep(self, known: Iterable[str]) -> None:
        """Remove the groups of all other containers."""
        kept = set(known)
        for base in self._bases():
            with contextlib.suppress(OSError):
                for entry in [entry for entry in os.scandir(base) if entry.is_dir() and entry.name not in kept]:
                    self.remove(entry.name)

    def close(self) -> None:
        """Remove empty groups and, without any container left, the base directories."""
        self.sweep(())
        for base in self._bases():
            with contextlib.suppress(OSError):
                base.rmdir()

    def _memory_limit_error(self, id: str, wanted: list[Setting]) -> str:
        assert self._hierarchy is not None
        base = self._hierarchy.bases.get(MEMORY)
        tries = ((s, _set(base / id, s)) for s in wanted if base is not None and s.controller == MEMORY and s.needed)
        return next((f"{setting.file}={setting.value}: {why}" for setting, why in tries if why), "")

    def _settings(self, resources: pb.LinuxContainerResources) -> list[Setting]:
        assert self._hierarchy is not None
        return cpusets.fit(settings(resources, self._hierarchy.unified), self._hierarchy.bases.get(CPUSET))

    def _bases(self) -> set[Path]:
        return set(self._hierarchy.bases.values()) if self._hierarchy is not None else set()

    def _apply(self, id: str, wanted: list[Setting]) -> list[Path]:
        """Apply settings and return the groups that hold one.

        Failed writes are retried after the rest: memory and memory+swap limits can be changed in one order only, which
        depends on their previous values.
        """
        assert self._hierarchy is not None
        bases = self._hierarchy.bases
        placed = [(bases[setting.controller] / id, setting) for setting in wanted if setting.controller in bases]
        failed = [(group, setting) for group, setting in placed if _set(group, setting)]
        for group, setting in failed:
            if (why := _set(group, setting)) and setting.needed:
                _LOG.warning("container %s: %s=%s: %s", id[:12], setting.file, setting.value, why)
        return [group for group in dict.fromkeys(group for group, _ in placed) if group.is_dir()]

    def _oom_file(self, id: str) -> str:
        assert self._hierarchy is not None
        base = self._hierarchy.bases.get(MEMORY)
        if base is None or not (base / id).is_dir():
            return ""
        return str(base / id / ("memory.events" if self._hierarchy.unified else "memory.oom_control"))

    def _set_total_weight(self) -> None:
        """Give all containers together the CPU weight of the machine's CPUs."""
        assert self._hierarchy is not None
        shares = 1024 * (os.cpu_count() or 1)
        if base := self._hierarchy.bases.get(CPU):
            file, value = ("cpu.weight", weight(shares)) if self._hierarchy.unified else ("cpu.shares", shares)
            with contextlib.suppress(OSError):
                write_control(base / file, str(value))


def _set(group: Path, setting: Setting) -> str:
    """Create the group and write the setting; return the error, empty if there is none."""
    try:
        group.mkdir(exist_ok=True)
        write_control(group / setting.file, setting.value)
    except OSError as error:
        return os.strerror(error.errno or 0).lower()
    return ""
