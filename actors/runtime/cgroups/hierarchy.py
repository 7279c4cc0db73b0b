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


class Found(NamedTuple):
    """`bases`: by controller, the directory that holds the containers' groups; version 2 has one for all."""

    unified: bool
    bases: dict[str, Path]


class Places(NamedTuple):
    """Where the kernel tells of cgroups; tests have their own."""

    mounts: Path = Path("/proc/self/mounts")
    membership: Path = Path("/proc/self/cgroup")


def find(root: Path, places: Places = Places()) -> Found | None:  # noqa: B008 # immutable
    """`root`, the state directory, gives the groups a name of their own. None: nothing can be limited here."""
    name = PREFIX + hashlib.sha256(os.fsencode(root)).hexdigest()[:8]
    try:
        mounts = [line.split() for line in places.mounts.read_text().splitlines()]
        membership = [line.split(":", 2) for line in places.membership.read_text().splitlines()]
    except OSError:
        return None
    own = {controller: path.lstrip("/") for _, listed, path in membership for controller in listed.split(",")}
    for mount in (Path(fields[1]) for fields in mounts if fields[2] == "cgroup2"):
        if bases := _unified(mount, own.get("", ""), name):
            return Found(True, bases)
    bases = {}
    for fields in (fields for fields in mounts if fields[2] == "cgroup"):
        for controller in set(CONTROLLERS) & set(fields[3].split(",")):
            base = _legacy(Path(fields[1]), own.get(controller, ""), name)
            if base is not None and (controller != CPUSET or seed(base, base.parent)):
                bases[controller] = base
    return Found(False, bases) if bases else None


def _legacy(mount: Path, own: str, name: str) -> Path | None:
    """Below our own group; in a container, whose group may lie outside of what is mounted, at the top."""
    for parent in (mount / own, mount):
        if (parent / "cgroup.procs").exists() and (base := _make(parent / name)):
            return base
    return None


def _unified(mount: Path, own: str, name: str) -> dict[str, Path]:
    """The topmost group we may make one in that gets controllers: groups with processes in them cannot hand any on."""
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
    """Controllers that the groups below `group` have."""
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
    """What a shim is told. `oom`: the file that counts kills for want of memory, empty without a memory limit.
    `cpus`: what its processes keep to where no group holds them there."""

    groups: list[str]
    oom: str
    cpus: Sequence[int] = ()


NONE = Membership([], "")


class Cgroups:
    """Every method is a few system calls. Without a hierarchy they do nothing."""

    def __init__(self, root: Path, found: Found | None = None) -> None:
        self._found = found or find(root)
        if self._found is not None:
            self._share_of_all()

    def describe(self) -> str:
        """For people."""
        if self._found is None:
            return "limits are not enforced: no writable cgroup hierarchy"
        version = 2 if self._found.unified else 1
        return f"limits by cgroup v{version}: {' '.join(sorted(self._found.bases))}"

    def make(self, id: str, resources: pb.LinuxContainerResources) -> Membership:
        """A limit that cannot be set is told in the log, and the container starts all the same."""
        cpus = self.affinity(resources)
        if self._found is None:
            return Membership([], "", cpus)
        groups = self._apply(id, self._settings(resources))
        return Membership([str(path) for path in groups], self._oom_file(id) if groups else "", cpus)

    def update(self, id: str, resources: pb.LinuxContainerResources, pids: Iterable[int]) -> str:
        """A running container's. Groups it had no need of before are made, and its processes moved there. Answers why
        its memory could not be limited so (it has more than that in use); empty when it could."""
        pids = list(pids)
        cpusets.move(pids, self.affinity(resources))
        if self._found is None:
            return ""
        before = {base / id for base in self._found.bases.values() if (base / id).exists()}
        wanted = self._settings(resources)
        for group in set(self._apply(id, wanted)) - before:
            for pid in pids:
                with contextlib.suppress(OSError):
                    (group / "cgroup.procs").write_text(str(pid))
        return self._unlimited(id, wanted)

    def affinity(self, resources: pb.LinuxContainerResources) -> tuple[int, ...]:
        """CPUs its processes have to keep to themselves; empty where a group does it, or nothing is asked for."""
        if self._found is not None and cpusets.fit(placement(resources), self._found.bases.get(CPUSET)):
            return ()
        return cpusets.affinity(resources)

    def remove(self, id: str) -> None:
        """Its processes have ended. Its shim does the same; whoever comes second finds nothing."""
        for base in self._bases():
            with contextlib.suppress(OSError):
                (base / id).rmdir()

    def sweep(self, known: Iterable[str]) -> None:
        """Groups of containers nobody knows any more."""
        kept = set(known)
        for base in self._bases():
            with contextlib.suppress(OSError):
                for entry in [entry for entry in os.scandir(base) if entry.is_dir() and entry.name not in kept]:
                    self.remove(entry.name)

    def close(self) -> None:
        """What is empty goes, and with the last container the directories around them."""
        self.sweep(())
        for base in self._bases():
            with contextlib.suppress(OSError):
                base.rmdir()

    def _unlimited(self, id: str, wanted: list[Setting]) -> str:
        assert self._found is not None
        base = self._found.bases.get(MEMORY)
        tries = ((s, _set(base / id, s)) for s in wanted if base is not None and s.controller == MEMORY and s.needed)
        return next((f"{setting.file}={setting.value}: {why}" for setting, why in tries if why), "")

    def _settings(self, resources: pb.LinuxContainerResources) -> list[Setting]:
        assert self._found is not None
        return cpusets.fit(settings(resources, self._found.unified), self._found.bases.get(CPUSET))

    def _bases(self) -> set[Path]:
        return set(self._found.bases.values()) if self._found is not None else set()

    def _apply(self, id: str, wanted: list[Setting]) -> list[Path]:
        """Groups that hold a setting now. What fails is tried again after the rest: a limit and the one around it can
        only be moved in one order, and which depends on where they were."""
        assert self._found is not None
        bases = self._found.bases
        placed = [(bases[setting.controller] / id, setting) for setting in wanted if setting.controller in bases]
        failed = [(group, setting) for group, setting in placed if _set(group, setting)]
        for group, setting in failed:
            if (why := _set(group, setting)) and setting.needed:
                _LOG.warning("container %s: %s=%s: %s", id[:12], setting.file, setting.value, why)
        return [group for group in dict.fromkeys(group for group, _ in placed) if group.is_dir()]

    def _oom_file(self, id: str) -> str:
        assert self._found is not None
        base = self._found.bases.get(MEMORY)
        if base is None or not (base / id).is_dir():
            return ""
        return str(base / id / ("memory.events" if self._found.unified else "memory.oom_control"))

    def _share_of_all(self) -> None:
        """Together the containers weigh as much as the machine has cpus."""
        assert self._found is not None
        shares = 1024 * (os.cpu_count() or 1)
        if base := self._found.bases.get(CPU):
            file, value = ("cpu.weight", weight(shares)) if self._found.unified else ("cpu.shares", shares)
            with contextlib.suppress(OSError):
                write_control(base / file, str(value))


def _set(group: Path, setting: Setting) -> str:
    """Why it failed; empty when it did not."""
    try:
        group.mkdir(exist_ok=True)
        write_control(group / setting.file, setting.value)
    except OSError as error:
        return os.strerror(error.errno or 0).lower()
    return ""
