"""Debian's etcd beside our store: the same test runs against both, and against the store's second door."""

import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from tests.support.store_lab import etcd_process, lab, listened_at, until


def etcd_binary() -> str:
    """Path of etcd; installs Debian's where that is possible. Skips the test with the reason otherwise."""
    found = shutil.which("etcd")
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        install = ["apt-get", "install", "-y", "-qq", "etcd-server"]
        subprocess.run(install, check=False, capture_output=True, timeout=300)
        found = shutil.which("etcd")
    if found is None:
        pytest.skip("etcd is not installed (Debian: apt-get install etcd-server)")
    return found


@pytest.fixture(scope="session", params=["ours", "door", "etcd"])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """gRPC target of a running server, shared by the tests of a session: each uses keys of its own."""
    if request.param == "etcd":
        with etcd_process(etcd_binary()) as target:
            yield target
    else:
        with lab("store") as ours:
            until("the store listens", lambda: listened_at(ours.socket))
            yield ours.door if request.param == "door" else ours.target
