"""Directories of pods that have ended: removed with the pod, or at the next start if this process died before."""

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

from actors.podworker.model.dependencies import NodeInfo
from actors.podworker.model.errors import SyncFailed
from actors.podworker.pods.volumes import bind_mounts as mounts
from actors.podworker.pods.volumes.paths import (
    MEMORY,
    PODS,
    memory_directory,
    pod_directory,
    pod_log_directory,
    removable,
)
from protocols.lifecycle.pods.types import PodSpec

TRIES = 3
"""A thread that nobody waits for any more may write into a directory while it is removed."""
log = logging.getLogger("podworker")


def remove_directories(node: NodeInfo, spec: PodSpec) -> None:
    """Remove volumes and logs of a pod. Raises SyncFailed while something is mounted there."""
    own, logs = pod_directory(node.root, spec.uid), pod_log_directory(node.logs, spec)
    if not (removable(own, node.root / PODS) and removable(logs, node.logs)):
        log.error("pod directories not removed, path escapes its base path=%s", own)
        return
    if left := mounts.detach_below(own):  # rmtree would delete the files of a mounted volume
        raise SyncFailed(f"pod {spec.namespace}/{spec.name}: {left[0]} is still mounted; unmount it")
    for directory in (memory_directory(node.root, spec.uid), own, logs):
        _remove(directory)


def _remove(directory: Path) -> None:
    for _ in range(TRIES):
        shutil.rmtree(directory, ignore_errors=True)
        if not directory.exists():
            return
    log.error("pod directory not removed, the next start tries again path=%s", directory)


def pods_with_directories(node: NodeInfo) -> Iterator[tuple[str, str, str]]:
    """Yield uid, namespace and name of every pod that has a directory; a pod without logs has only a uid."""
    for entry in _entries(node.logs):
        namespace, _, rest = entry.partition("_")
        name, _, uid = rest.rpartition("_")
        yield uid, namespace, name
    for uid in sorted({*_entries(node.root / PODS), *_entries(node.root / MEMORY)}):
        yield uid, "", ""


def _entries(directory: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in directory.iterdir() if entry.is_dir() and not entry.is_symlink())
    except OSError:
        return []  # no pod was here yet
