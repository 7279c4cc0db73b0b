"""The engine behind a test's plane: our store on SQLite, or Debian's etcd. NODEPLANE_TEST_STORE=etcd puts every test
that names none on etcd."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.support.ports import free_port
from tests.support.store_lab import etcd_command

OURS, ETCD = "ours", "etcd"


def engines() -> tuple[Any, ...]:
    """Return the parameters of a fixture for tests of the API server that go through the store but are not about it.

    On etcd they are heavy: that both engines answer alike is shown by tests/integration/test_store_parity.py.
    """
    import pytest  # not there where only the bench is

    return OURS, pytest.param(ETCD, marks=pytest.mark.heavy)


def chosen(wanted: str = "") -> str:
    engine = wanted or os.environ.get("NODEPLANE_TEST_STORE") or OURS
    assert engine in (OURS, ETCD), f"NODEPLANE_TEST_STORE is {OURS} or {ETCD}, not {engine!r}"
    return engine


def etcd_binary() -> str:
    """Path of etcd; installs Debian's where that is possible. Skips the test with the reason otherwise."""
    found = shutil.which("etcd")
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        install = ["apt-get", "install", "-y", "-qq", "etcd-server"]
        subprocess.run(install, check=False, capture_output=True, timeout=300)
        found = shutil.which("etcd")
    if found is None:
        import pytest

        pytest.skip("etcd is not installed (Debian: apt-get install etcd-server)")
    return found


def etcd_if_there() -> str:
    """For tests of what no engine changes, one of which will do: etcd, which other tests of the kind are not on."""
    return ETCD if shutil.which("etcd") else OURS


class Etcd:
    """One member, to be started and killed like any process of the plane; its data is below the plane's root."""

    def __init__(self, binary: str, root: Path) -> None:
        client = free_port()
        self.target = f"127.0.0.1:{client}"
        self.command = etcd_command(binary, root / "etcd", client, free_port())
