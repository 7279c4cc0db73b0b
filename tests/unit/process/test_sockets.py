"""Directories of sockets: who may pass is what the pages say, whatever umask the process has."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocols.process.layout import Layout
from protocols.process.sockets import let_group_in, prepare_directory, prepare_socket
from supervisor.root.directories import make_directories


@pytest.fixture(autouse=True)
def _strict_umask() -> Iterator[None]:
    """Create files as the actors do."""
    old = os.umask(0o077)
    yield
    os.umask(old)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_directory_of_sockets_has_kubelets_mode(tmp_path: Path) -> None:
    prepare_socket(tmp_path / "device-plugins" / "kubelet.sock")
    assert mode(tmp_path / "device-plugins") == 0o750


def test_a_directory_that_is_there_is_its_makers(tmp_path: Path) -> None:
    prepare_directory(tmp_path / "made", 0o700)
    prepare_directory(tmp_path / "made")
    assert mode(tmp_path / "made") == 0o700


def test_a_group_that_is_named_gets_as_far_as_the_socket(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "r", tmp_path / "r" / "kubelet")
    make_directories(layout)
    prepare_directory(layout.pod_resources_socket.parent, 0o700)
    let_group_in(layout.pod_resources_socket.parent, os.getgid())
    assert mode(layout.root) == mode(layout.kubelet) == 0o711
    assert mode(layout.pod_resources_socket.parent) == 0o750
