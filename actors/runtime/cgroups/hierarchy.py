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
    NO_SHARES,
    SHARES_FILES,
    Setting,
    enable,
    placement,
    scaled,
    settings,
    weight,
    write_control,
)
from actors.runtime.cgroups.pods import NO_POD, PodGroup, balance, make_parents, remove_parents
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
        mounts = [line.split(" ") for line in _lines(files.mounts)]
        membership = [line.split(":", 2) for line in _lines(files.membership)]
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


def _lines(path: Path) -> list[str]:
    """Return the lines of a file of the kernel; paths in them may be any bytes. Raises OSError."""
    return [line for line in os.fsdecode(path.read_bytes()).split("\n") if line]


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
        enable(parent)
        if got := enable(base):
            return dict.fromkeys(got, base)
        with contextlib.suppress(OSError):
            base.rmdir()
    return {}


def _ancestors(mount: Path, own: str) -> Iterator[Path]:
    yield mount
    for part in Path(own).parts:
        mount = mount / part
        yield mount


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
    views: tuple[tuple[str, str], ...] = ()
    """Groups with their names below /sys/fs/cgroup: the controller in version 1, empty in version 2."""


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

    @property
    def unified(self) -> bool:
        return self._hierarchy is not None and self._hierarchy.unified

    def make(self, id: str, resources: pb.LinuxContainerResources, pod: PodGroup = NO_POD) -> Membership:
        """Create the groups of a container, and of its pod. A limit that cannot be set is logged, and left out."""
        cpus = self.affinity(resources)
        if self._hierarchy is None:
            return Membership([], "", cpus)
        groups = self._apply(id, self._settings(resources, pod), pod)
        oom = self._oom_file(id, pod) if groups else ""
        return Membership([str(path) for path in groups], oom, cpus, self._views(groups))

    def update(
        self, id: str, resources: pb.LinuxContainerResources, pids: Iterable[int], pod: PodGroup = NO_POD
    ) -> str:
        """Update the limits of a running container, and move its processes to groups that are new.

        Return why its memory could not be limited (it has more than that in use); empty if it was.
        """
        pids = list(pids)
        cpusets.move(pids, self.affinity(resources))
        if self._hierarchy is None:
            return ""
        before = {group for group in self._groups(id, pod) if group.exists()}
        wanted = self._settings(resources, pod)
        for group in set(self._apply(id, wanted, pod)) - before:
            for pid in pids:
                with contextlib.suppress(OSError):
                    (group / "cgroup.procs").write_text(str(pid))
        return self._memory_limit_error(id, wanted, pod)

    def joined(self, id: str, pod: PodGroup = NO_POD) -> Membership:
        """Return the groups that a running container has now, without its views and affinity."""
        groups = sorted(str(group) for group in self._groups(id, pod) if group.is_dir())
        return Membership(groups, self._oom_file(id, pod) if groups else "")

    def update_pod(self, pod: PodGroup) -> None:
        """Update the limits of a pod whose containers run; without a group of it there is nothing to limit."""
        for base in self._bases():
            if pod.parent and (base / pod.parent).is_dir():
                self._limit_pod(base, pod)

    def affinity(self, resources: pb.LinuxContainerResources) -> tuple[int, ...]:
        """Return the CPU affinity to set for its processes; empty if a cpuset does it or none is requested."""
        if self._hierarchy is not None and cpusets.fit(placement(resources), self._hierarchy.bases.get(CPUSET)):
            return ()
        return cpusets.affinity(resources)

    def remove(self, id: str, pod: PodGroup = NO_POD) -> None:
        """Remove the groups of an ended container. Its shim does the same, in either order."""
        for group in self._groups(id, pod):
            with contextlib.suppress(OSError):
                group.rmdir()
        for base in self._bases() if pod.parent else ():
            remove_parents(base, pod.parent)
        self._balance(pod)

    def sweep(self, known: Iterable[str]) -> None:
        """Remove the groups of all other containers, and of pods without any."""
        kept = set(known)
        for base in self._bases():
            for path, _, _ in os.walk(base, topdown=False):
                if Path(path) != base and os.path.basename(path) not in kept:
                    with contextlib.suppress(OSError):
                        os.rmdir(path)

    def close(self) -> None:
        """Remove empty groups and, without any container left, the base directories."""
        self.sweep(())
        for base in self._bases():
            with contextlib.suppress(OSError):
                base.rmdir()

    def _memory_limit_error(self, id: str, wanted: list[Setting], pod: PodGroup) -> str:
        group = self._group(id, pod, MEMORY)
        tries = ((s, _set(group, s)) for s in wanted if group is not None and s.controller == MEMORY and s.needed)
        return next((f"{setting.file}={setting.value}: {why}" for setting, why in tries if why), "")

    def _group(self, id: str, pod: PodGroup, controller: str) -> Path | None:
        """Return the path of a container's group. CPUs in version 1 are not inherited, so pods have no group there."""
        assert self._hierarchy is not None
        base = self._hierarchy.bases.get(controller)
        flat = controller == CPUSET and not self._hierarchy.unified
        return base and (base / id if flat else base / pod.parent / id)

    def _groups(self, id: str, pod: PodGroup) -> set[Path]:
        groups = (self._group(id, pod, controller) for controller in self._hierarchy.bases) if self._hierarchy else ()
        return {group for group in groups if group is not None}

    def _settings(self, resources: pb.LinuxContainerResources, pod: PodGroup) -> list[Setting]:
        """Return the settings of a container. The least shares are no reason for a group, but are set in one."""
        assert self._hierarchy is not None
        effective = cpusets.fit(settings(resources, self._hierarchy.unified), self._hierarchy.bases.get(CPUSET))
        least = 0 < resources.cpu_shares <= NO_SHARES and (effective or pod.limits)
        value = str(scaled(NO_SHARES, self.unified))
        return [*effective, Setting(CPU, SHARES_FILES[self.unified], value)] if least else effective

    def _bases(self) -> set[Path]:
        return set(self._hierarchy.bases.values()) if self._hierarchy is not None else set()

    def _apply(self, id: str, wanted: list[Setting], pod: PodGroup) -> list[Path]:
        """Apply settings and return the groups of the container.

        Failed writes are retried after the rest: memory and memory+swap limits can be changed in one order only, which
        depends on their previous values.
        """
        placed = [(group, s) for s in wanted if (group := self._group(id, pod, s.controller)) is not None]
        groups = dict.fromkeys((*(group for group, _ in placed), *self._beside(id, wanted, pod)))
        for base in self._bases() if groups and pod.parent else ():
            self._limit_pod(base, pod)
        failed = [(group, setting) for group, setting in placed if _set(group, setting)]
        for group, setting in failed:
            if (why := _set(group, setting)) and setting.needed:
                _LOG.warning("container %s: %s=%s: %s", id[:12], setting.file, setting.value, why)
        self._balance(pod)
        return [group for group in groups if _made(group)]

    def _beside(self, id: str, wanted: list[Setting], pod: PodGroup) -> list[Path]:
        """Return groups without a setting: for the pod's limits, and for a later limit of CPU or memory."""
        controllers = {setting.controller for setting in (*wanted, *pod.limits)}
        controllers |= {CPU, MEMORY} if controllers & {CPU, MEMORY} else set()
        groups = (self._group(id, pod, controller) for controller in sorted(controllers))
        return [group for group in groups if group is not None]

    def _limit_pod(self, base: Path, pod: PodGroup) -> None:
        """Make the pod's group, with the limits that this hierarchy has."""
        assert self._hierarchy is not None
        try:
            place = make_parents(base, pod.parent, self.unified)
        except OSError as error:
            _LOG.warning("pod group %s: %s", pod.parent, os.strerror(error.errno or 0).lower())
            return
        here = [setting for setting in pod.limits if self._hierarchy.bases.get(setting.controller) == base]
        for setting in [setting for setting in here if _set(place, setting)]:
            if (why := _set(place, setting)) and setting.needed:
                _LOG.warning("pod group %s: %s=%s: %s", pod.parent, setting.file, setting.value, why)

    def _balance(self, pod: PodGroup) -> None:
        if self._hierarchy is not None and (base := self._hierarchy.bases.get(CPU)):
            balance(base, pod, self.unified)

    def _views(self, groups: list[Path]) -> tuple[tuple[str, str], ...]:
        assert self._hierarchy is not None
        if self._hierarchy.unified:
            return tuple((str(group), "") for group in groups[:1])
        bases = self._hierarchy.bases.items()
        return tuple((str(group), name) for group in groups for name, base in bases if base in group.parents)

    def _oom_file(self, id: str, pod: PodGroup) -> str:
        group = self._group(id, pod, MEMORY)
        if group is None or not group.is_dir():
            return ""
        return str(group / ("memory.events" if self.unified else "memory.oom_control"))

    def _set_total_weight(self) -> None:
        """Give all containers together the CPU weight of the machine's CPUs."""
        assert self._hierarchy is not None
        shares = 1024 * (os.cpu_count() or 1)
        if base := self._hierarchy.bases.get(CPU):
            file, value = ("cpu.weight", weight(shares)) if self._hierarchy.unified else ("cpu.shares", shares)
            with contextlib.suppress(OSError):
                write_control(base / file, str(value))


def _made(group: Path) -> bool:
    with contextlib.suppress(OSError):
        group.mkdir(exist_ok=True)
    return group.is_dir()


def _set(group: Path | None, setting: Setting) -> str:
    """Create the group and write the setting; return the error, empty if there is none."""
    if group is None:
        return ""
    try:
        group.mkdir(exist_ok=True)
        write_control(group / setting.file, setting.value)
    except OSError as error:
        return os.strerror(error.errno or 0).lower()
    return ""
