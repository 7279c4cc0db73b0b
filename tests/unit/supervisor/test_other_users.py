"""Commands on a plane of another user: they say so instead of "no plane runs"."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from supervisor.base.errors import explain, owner_of
from supervisor.cli.main import main
from supervisor.client.connection import OPENS

NOBODY = 65534


@pytest.fixture
def root(root: Path) -> Path:
    root.chmod(0o711)
    (root / "run").mkdir(mode=0o700)
    (root / "kubeconfig").touch(mode=0o600)
    return root


@contextmanager
def another_user(private: Path) -> Iterator[None]:
    """Without rights on `private`: as nobody if this is root, else by its mode."""
    if os.geteuid() == 0:
        os.seteuid(NOBODY)
        try:
            yield
        finally:
            os.seteuid(0)
    else:
        private.chmod(0)
        try:
            yield
        finally:
            private.chmod(0o700)


def test_file_of_another_user_names_the_owner(root: Path) -> None:
    with another_user(root / "kubeconfig"), pytest.raises(PermissionError) as raised:
        (root / "kubeconfig").read_text()
    with another_user(root / "run"):
        text = explain(raised.value)
    owner = owner_of(root)
    wanted = f"it is {owner}'s; run this as {owner}, or use a directory" if os.geteuid() == 0 else "mend permissions"
    assert text.startswith(f"{root / 'kubeconfig'}: ")
    assert wanted in text


@pytest.mark.parametrize("name", ["gone/file", "file/below", ".", "x" * 256])
def test_path_that_cannot_be_is_no_fault_of_nodeplane(name: str, root: Path) -> None:
    (root / "file").touch()
    with pytest.raises(OSError, match="Errno") as raised:
        (root / name).write_text("")
    assert explain(raised.value).endswith("; check the path")


WORDS = [
    ("status",),
    ("down",),
    ("console",),
    ("devices",),
    ("devices", "--why", "a"),
    ("tap", "devices", "devices"),
]


@pytest.mark.parametrize("words", WORDS)
def test_command_on_plane_of_other_user_names_owner(
    words: tuple[str, ...], root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--root", str(root), *words])  # loads its modules
    capsys.readouterr()
    with another_user(root / "run"):
        assert main(["--root", str(root), *words]) == 1
    owner = owner_of(root)
    assert f"permission denied: {root} is {owner}'s; run this as {owner}" in capsys.readouterr().err


@pytest.mark.parametrize("folder_mode", [0o711, 0o700])
def test_watch_of_socket_without_permission_names_owner_and_flags(
    folder_mode: int, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = root / "pod-resources"
    folder.mkdir()
    path = folder / "kubelet.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        path.chmod(0o600 if folder_mode == 0o700 or os.geteuid() == 0 else 0)
        folder.chmod(folder_mode)
        with another_user(folder):
            assert main(["watch", "pods", "--socket", str(path)]) == 1
    written = capsys.readouterr().err
    assert f"{path}: permission denied: it is {owner_of(root)}'s" in written
    assert OPENS in written
