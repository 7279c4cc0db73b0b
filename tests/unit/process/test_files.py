"""Files that matter: whole or not at all, and nothing half written stays."""

import errno
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocols.errors import SettingsInvalid
from protocols.process import files
from protocols.process.files import SealBroken, WholeFile, seal, unseal, write_all, write_atomic
from protocols.process.settings import load_settings

ROOT = Path(__file__).resolve().parents[3]
DEAD = 2**22 + 1
"""Beyond the largest pid there can be."""


@pytest.mark.parametrize("how", ["directory", "pipe", "link", "large"])
def test_what_is_no_state_file_is_named(tmp_path: Path, how: str) -> None:
    path = tmp_path / "state"
    if how == "directory":
        path.mkdir()
    elif how == "pipe":
        os.mkfifo(path)
    elif how == "link":
        path.symlink_to(path)
    else:
        path.touch()
        os.truncate(path, files.LARGEST + 1)
    with pytest.raises(files.NotAFile, match=str(path)):
        files.read_state(path)


def test_output_goes_to_a_device_and_replaces_a_file(tmp_path: Path) -> None:
    pipe, file = tmp_path / "pipe", tmp_path / "file"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    files.write_output(pipe, "key")
    assert os.read(reader, 10) == b"key"
    os.close(reader)
    assert pipe.is_fifo()
    file.write_text("old")
    files.write_output(file, "größe")
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == ("größe".encode(), 0o600)


def test_the_new_content_or_the_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state"
    write_atomic(path, b"one", 0o640)

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomic(path, b"two")
    assert path.read_bytes() == b"one"
    assert path.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["state"]


def test_input_of_a_user_is_a_file_or_standard_input(tmp_path: Path) -> None:
    path = tmp_path / "script"
    path.write_bytes(b"wait 1")
    assert files.read_input(path) == b"wait 1"
    here, there = socket.socketpair()  # as some programs start their children
    with here, there:
        here.sendall(b"wait 2")
        here.shutdown(socket.SHUT_WR)
        code = "import sys; from protocols.process.files import read_input; sys.stdout.buffer.write(read_input('-'))"
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, stdin=there.fileno(), capture_output=True, check=True
        )
    assert done.stdout == b"wait 2"


def test_error_of_the_rename_names_the_file_and_not_its_draft(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(IsADirectoryError) as found:
        write_atomic(tmp_path / "out", b"x")
    assert found.value.filename == str(tmp_path / "out")


def test_write_all_that_fails_replaces_none(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    write_all([WholeFile(one, b"1"), WholeFile(two, b"1", 0o644)])
    (tmp_path / f".two.{os.getpid()}.tmp").mkdir()  # in the place of its draft
    with pytest.raises(IsADirectoryError):
        write_all([WholeFile(one, b"2"), WholeFile(two, b"2")])
    assert (one.read_bytes(), two.read_bytes()) == (b"1", b"1")
    assert (one.stat().st_mode & 0o777, two.stat().st_mode & 0o777) == (0o600, 0o644)


def test_error_names_the_file_and_not_its_draft(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"gone/state'$"):
        write_atomic(tmp_path / "gone" / "state", b"")


@pytest.fixture
def zombie() -> Iterator[int]:
    """A process that has ended and whose parent has not noticed."""
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    yield process.pid
    process.wait()


def test_what_a_killed_process_left_is_removed_and_a_living_ones_is_not(tmp_path: Path, zombie: int) -> None:
    for pid in (DEAD, zombie):
        (tmp_path / f".state.{pid}.tmp").touch()
        (tmp_path / f".other.{pid}.tmp").touch()
    alive = {f".state.{os.getppid()}.tmp", ".no.number.tmp", ".no.\u00b2.tmp", ".short.tmp", f"visible.{DEAD}.tmp"}
    for name in alive:
        (tmp_path / name).touch()
    (tmp_path / f".folder.{DEAD}.tmp").mkdir()
    write_atomic(tmp_path / "state", b"x")
    assert set(os.listdir(tmp_path)) == {"state", f".folder.{DEAD}.tmp", *alive}


FORKED = """
import os, sys
from pathlib import Path
from protocols.process.files import write_atomic
path = Path(sys.argv[1])
write_atomic(path, b"parent's")
path.with_name(f".state.{sys.argv[2]}.tmp").touch()
if os.fork() == 0:
    write_atomic(path, b"child's")
    os._exit(0)
os.wait()
"""


def test_forked_process_removes_what_a_killed_one_left_though_its_parent_has_looked(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", FORKED, str(tmp_path / "state"), str(DEAD)], check=True, cwd=ROOT)
    assert os.listdir(tmp_path) == ["state"]


def test_new_directories_are_synced_into_their_parents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(files, "sync_directory", synced.append)
    path = tmp_path / "a" / "b"
    files.make_directory(path, 0o700)
    assert synced == [tmp_path.parent, tmp_path, tmp_path / "a"]
    assert path.stat().st_mode & 0o777 == 0o700
    files.make_directory(path, 0o755)
    assert synced[3:] == [tmp_path / "a"], "a killed process may have made it"
    assert path.stat().st_mode & 0o777 == 0o700


def test_file_that_is_no_utf8_is_malformed(tmp_path: Path) -> None:
    with pytest.raises(SealBroken):
        unseal(seal(b"{}").replace(b'checksum":"', b'checksum":"\xff'))
    (tmp_path / "settings.json").write_bytes(b'{"root":"\xff"}')
    with pytest.raises(SettingsInvalid, match="are not valid"):
        load_settings(tmp_path / "settings.json")
