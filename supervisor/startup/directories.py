"""ROOT and the folders in it."""

import os
from pathlib import Path

from protocols.files import write_atomic
from protocols.layout import Layout
from supervisor.errors import RootUnusable

CLOSED, OPEN = 0o700, 0o711
PROBE = b"\0" * 4096


def make_directories(where: Layout) -> None:
    """ROOT and what the supervisor keeps in it; also proves that the disk takes a write."""
    try:
        for path in (where.root, where.kubelet):
            _make(path, OPEN)
        for path in (where.run, where.logs, where.store, where.runtime, where.devices):
            _make(path, CLOSED)
        probe = where.run / f".probe-{os.getpid()}"  # groups of one plane start side by side
        write_atomic(probe, PROBE)
        probe.unlink()
    except OSError as error:
        raise RootUnusable(
            f"cannot write below {where.root}: {error.strerror}; free some space, mend its permissions or use --root"
        ) from None


def _make(path: Path, mode: int) -> None:
    if not path.is_dir():
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(mode)
