"""Groups of whole pods, above those of their containers: kubelet's layout, the pod's limits, shares by QoS class.

A pod has a group while one of its containers has one. CPU shares of a pod and of the class `burstable` are the sums of
what is below them, so that shares mean the same on every level; `besteffort` has the least.
"""

import contextlib
import os
import re
from pathlib import Path
from typing import NamedTuple

from actors.runtime.cgroups.limits import MOST_SHARES, SHARES_FILES, Setting, enable, scaled, settings, write_control
from actors.runtime.model.errors import InvalidRequest
from protocols.wire import cri_pb2 as pb

BURSTABLE, BEST_EFFORT = "burstable", "besteffort"
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,200}")
MOST_PARTS = 8
_QUOTA, _WEIGHT, _MEMORY = "cpu.max", "cpu.weight", "memory.max"
"""Keys of a sandbox's `unified` resources that make its quota, shares and memory limit those of the pod's group."""


class PodGroup(NamedTuple):
    """The cgroup of one pod."""

    parent: str = ""
    """Path of the pod's group below the containers' base; empty: the base itself."""
    limits: tuple[Setting, ...] = ()
    shares: int = 0
    """CPU shares or weight that the pod requests itself; those of its containers count if they are more."""


NO_POD = PodGroup()


def pod_group(config: pb.PodSandboxConfig, unified: bool) -> PodGroup:
    """Return the group that a sandbox requests. Raises InvalidRequest."""
    resources = config.linux.resources
    parts = [part for part in config.linux.cgroup_parent.split("/") if part]
    if len(parts) > MOST_PARTS or not all(map(_PART.fullmatch, parts)):
        raise InvalidRequest(f'cgroup_parent "{config.linux.cgroup_parent}" is no path of at most {MOST_PARTS} names')
    own = pb.LinuxContainerResources()
    if _QUOTA in resources.unified:
        own.cpu_quota, own.cpu_period = resources.cpu_quota, resources.cpu_period
    if _MEMORY in resources.unified:
        own.memory_limit_in_bytes = resources.memory_limit_in_bytes
    limits = (setting for setting in settings(own, unified) if setting.file != "memory.oom.group")
    shares = resources.cpu_shares if _WEIGHT in resources.unified else 0
    return PodGroup("/".join(parts), tuple(limits) if parts else (), scaled(shares, unified))


def make_parents(base: Path, parent: str, unified: bool) -> Path:
    """Create the groups above a container's and return the lowest. Raises OSError."""
    place = base
    for part in Path(parent).parts:
        place = place / part
        place.mkdir(exist_ok=True)
        if unified:
            enable(place)
    return place


def remove_parents(base: Path, parent: str) -> None:
    """Remove the groups of a pod and of its class that are empty."""
    parts = Path(parent).parts
    for count in range(len(parts), 0, -1):
        try:
            (base / Path(*parts[:count])).rmdir()
        except OSError:
            return


def balance(base: Path, pod: PodGroup, unified: bool) -> None:
    """Set the shares of a pod's group and of its class to the sums of what is below them."""
    parts = Path(pod.parent).parts
    if not parts:
        return
    name, least, most = SHARES_FILES[unified], scaled(0, unified), scaled(MOST_SHARES, unified)
    _write(base / pod.parent / name, min(max(_sum(base / pod.parent, name), pod.shares, least), most))
    if BEST_EFFORT in parts[:-1]:
        _write(base / Path(*parts[: parts.index(BEST_EFFORT) + 1]) / name, least)
    elif BURSTABLE in parts[:-1]:
        quality = base / Path(*parts[: parts.index(BURSTABLE) + 1])
        _write(quality / name, min(max(_sum(quality, name), least), most))


def _sum(group: Path, name: str) -> int:
    total = 0
    with contextlib.suppress(OSError):
        for entry in [entry for entry in os.scandir(group) if entry.is_dir()]:
            with contextlib.suppress(OSError, ValueError):
                total += int(Path(entry.path, name).read_text())
    return total


def _write(path: Path, value: int) -> None:
    with contextlib.suppress(OSError):
        write_control(path, str(value))
