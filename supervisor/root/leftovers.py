"""Sockets, mounts and containers that outlive their process: find them, wait for their owners, remove them.

A socket belongs to a process as long as that holds the lock file of the same name. Lock files stay, held or not: they
carry the epochs.
"""

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from protocols.process import linux
from protocols.process.files import UNREADABLE, is_locked, read_state
from protocols.process.mountinfo import mounts_below
from protocols.process.proc import boot_id

ENDPOINTS = (".rpc", ".pub")
WAIT_S = 5.0
_PODS, _MEMORY = "pods", "memory"


def clean(run_dir: Path) -> None:
    """Remove the sockets of every name whose lock is free."""
    remove_all(run_dir, {path.stem for path in run_dir.iterdir() if path.suffix in ENDPOINTS})


def remove_all(run_dir: Path, names: Iterable[str]) -> None:
    """Remove the sockets of these names, unless a process holds their lock."""
    for name in names:
        if not is_locked(run_dir / f"{name}.lock"):
            remove(run_dir, name)


def remove(run_dir: Path, name: str) -> None:
    """Remove the sockets of one name, whoever holds its lock."""
    for suffix in ENDPOINTS:
        (run_dir / f"{name}{suffix}").unlink(missing_ok=True)


def wait_released(run_dir: Path, names: Iterable[str], wait_s: float = WAIT_S) -> list[str]:
    """Wait for the children of a supervisor that was killed a moment ago; return the names that still hold a lock."""
    deadline = time.monotonic() + wait_s
    while alive := [name for name in names if is_locked(run_dir / f"{name}.lock")]:
        if time.monotonic() > deadline:
            return alive
        time.sleep(0.01)
    return []


def has_endpoints(run_dir: Path, name: str) -> bool:
    """Return True if all sockets of an instance exist."""
    return all((run_dir / f"{name}{suffix}").exists() for suffix in ENDPOINTS)


def orphaned_containers(root: Path) -> int:
    """Return the number of containers of the embedded runtime that run below a root.

    A process that took the pid of a shim since the machine started counts as one.
    """
    count, boot = 0, boot_id()
    for started in root.glob("runtime/shims/*/started.json"):
        with suppress(OSError, *UNREADABLE):
            record = msgspec.json.decode(read_state(started), type=_Started)
            ended = record.boot != boot or (started.parent / "exit.json").exists()
            count += not ended and Path(f"/proc/{record.shim}").exists()
    return count


class _Started(msgspec.Struct):
    """The part of a shim's record that is read here."""

    shim: int
    boot: str = ""
    """Id of the machine's start."""


def unmount_below(root: Path) -> None:
    """Unmount volumes in memory below ROOT, so that a root that is down can be removed."""
    if os.geteuid() != 0:
        return
    for place in (*mounts_below(root / _PODS), str(root / _MEMORY)):
        with suppress(OSError):  # none is mounted there
            linux.detach(place)
