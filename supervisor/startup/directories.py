"""ROOT and the folders in it."""

import os
from pathlib import Path

from protocols.files import write_atomic
from protocols.layout import Layout
from supervisor.errors import RootUnusable
from supervisor.root.trust import check_directory, check_files

CLOSED, OPEN = 0o700, 0o711
PROBE = b"\0" * 4096


def make_directories(where: Layout) -> None:
    """Make ROOT and what the supervisor keeps in it, and prove that the disk takes a write.

    Raises RootUnusable, and DirectoryNotTrusted before anything is written where others could have been before.
    """
    try:
        check_trust(where)
        for path in (where.root, where.kubelet):
            _make(path, OPEN)
        for path in (where.run, where.logs, where.store, where.runtime, where.devices):
            _make(path, CLOSED)
        check_trust(where)  # between the first check and making them somebody else may have made them
        where.run.chmod(CLOSED)
        probe = where.run / f".probe-{os.getpid()}"  # groups of one plane start side by side
        write_atomic(probe, PROBE)
        probe.unlink()
    except OSError as error:
        raise RootUnusable(
            f"cannot write below {where.root}: {error.strerror}; free some space, mend its permissions or use --root"
        ) from None


def check_trust(where: Layout) -> None:
    """Raise DirectoryNotTrusted for what others can write: keys, state, and whatever is run as the plane's user."""
    etcd = where.etcd_ca.parent
    for path in (where.root, where.run, where.pki, etcd, where.store, where.runtime, where.devices, where.logs):
        check_directory(path)
    for path in (where.root / "nodes", where.root / "pods", where.pod_logs, where.cdi):
        check_directory(path)
    for path in (where.kubelet, where.kubelet / "manifests"):
        check_directory(path, shared=True)
    for path in (where.pki, etcd):
        check_files(path)


def _make(path: Path, mode: int) -> None:
    if not path.is_dir():
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(mode)
