"""Looks for a cgroup hierarchy this process may make groups in. Nothing outside directories named here is changed."""

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from actors.runtime.cgroups.cpusets import seed
from actors.runtime.cgroups.limits import CONTROLLERS, CPUSET

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
