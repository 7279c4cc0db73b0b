"""Files of products on a disk that loses power, fills up and fails: at every call that changes it."""

import itertools
import os
import socket
from collections.abc import Callable, Iterator

import pytest

from protocols.process import files
from protocols.process.files import make_directory, read_bounded, write_atomic
from tests.simulation.disk.faults import Killed
from tests.simulation.disk.stub import StubMachine, stub_machine

SEEDS = 8


@pytest.fixture
def machine() -> Iterator[StubMachine]:
    with stub_machine() as made:
        yield made


def write_four(machine: StubMachine, kill_at: int) -> tuple[bool, int, list[int]]:
    """Write a file four times, until a power cut.

    Return whether that came, how many writes were acknowledged, and which is there (0: no file; none: no whole one).
    """
    path = machine.root / "state" / "file"
    contents = [b"%d" % number * 9000 for number in range(5)]
    done = [0]

    def work() -> None:
        make_directory(path.parent, 0o700)
        for number in range(1, 5):
            write_atomic(path, contents[number])
            done[0] = number

    killed = machine.run(work, kill_at=kill_at)
    machine.disk.cut()
    if not path.exists():
        return killed, done[0], [0]
    data = read_bounded(path)
    return killed, done[0], [number for number in range(1, 5) if contents[number] == data]


def broken(machine: StubMachine) -> set[str]:
    """Return what is wrong after a power cut at any call."""
    faults = set()
    for kill_at in itertools.count(1):
        for seed in range(SEEDS):
            machine.format(f"{kill_at}/{seed}")
            killed, done, there = write_four(machine, kill_at)
            if not there:
                faults.add("mixed")
            elif there[0] < done:
                faults.add("lost")
        if not killed:
            break
    return faults


def test_atomic_write_survives_power_cut_at_every_call(machine: StubMachine) -> None:
    assert not broken(machine)


@pytest.mark.parametrize(
    ("left_out", "wrong"), [("fsync", "mixed"), ("sync_directory", "lost"), ("make_directory", "lost")]
)
def test_each_sync_that_is_left_out_is_found(
    machine: StubMachine, monkeypatch: pytest.MonkeyPatch, left_out: str, wrong: str
) -> None:
    def nothing(*_: object) -> None:
        """Do not sync."""

    if left_out == "fsync":
        replaced = os.fsync
        monkeypatch.setattr(os, "fsync", lambda fd: None if os.path.isfile(f"/proc/self/fd/{fd}") else replaced(fd))
    elif left_out == "sync_directory":
        monkeypatch.setattr(files, left_out, nothing)
    else:
        monkeypatch.setitem(globals(), left_out, lambda path, mode: path.mkdir(mode))
    assert wrong in broken(machine)


def test_kill_keeps_what_was_written(machine: StubMachine) -> None:
    root = machine.root

    def work() -> None:
        with open(root / "a", "w") as file:
            file.write("text")
            file.flush()
            (root / "b").write_bytes(b"after the kill")

    assert machine.run(work, kill_at=3), "creates a, writes, is killed as it creates b"
    assert os.listdir(root) == ["a"]
    assert (root / "a").read_text() == "text"


def test_dead_process_changes_nothing(machine: StubMachine) -> None:
    root = machine.root

    def stubborn() -> None:
        descriptor = os.open(root / "a", os.O_WRONLY | os.O_CREAT)
        for work in (
            lambda: os.write(descriptor, b"x"),
            lambda: os.unlink(root / "a"),
            lambda: os.rename(root / "a", root / "b"),
            lambda: os.mkdir(root / "c"),
            lambda: os.fsync(descriptor),
            lambda: (root / "d").touch(),
        ):
            with pytest.raises(Killed):
                work()
        os.close(descriptor)

    assert machine.run(stubborn, kill_at=2)
    assert [(path.name, path.stat().st_size) for path in root.iterdir()] == [("a", 0)]


def test_full_disk_takes_a_part_and_removals_give_space_back(machine: StubMachine) -> None:
    root = machine.root
    (root / "reserve").write_bytes(bytes(500))
    machine.disk.faults.free = 100

    def work() -> None:
        with pytest.raises(OSError, match="No space left"):
            write_atomic(root / "state", bytes(300))
        assert os.listdir(root) == ["reserve"], "nothing half written stays"
        assert machine.disk.faults.free == 100
        (root / "reserve").unlink()
        write_atomic(root / "state", bytes(600))
        descriptor = os.open(root / "state", os.O_WRONLY)
        assert os.write(descriptor, bytes(600)) == 600, "what is there already needs no space"
        os.close(descriptor)

    assert not machine.run(work)


@pytest.mark.parametrize("operation", ["write", "sync", "read"])
def test_input_output_error_is_reported_once(machine: StubMachine, operation: str) -> None:
    root = machine.root
    write_atomic(root / "state", b"old")
    machine.disk.faults.failing[operation] = 1
    path = root / "state"
    failing: Callable[[], object] = path.read_bytes if operation == "read" else lambda: write_atomic(path, b"new")

    def work() -> None:
        with pytest.raises(OSError, match="Input/output error"):
            failing()
        path.read_bytes()

    assert not machine.run(work)
    assert (root / "state").read_bytes() == b"old"


def test_slow_sync_and_older_file(machine: StubMachine) -> None:
    root = machine.root
    spent: list[float] = []
    machine.disk.faults.sync_seconds, machine.disk.spend = 0.25, spent.append
    path = root / "state"
    machine.run(lambda: write_atomic(path, b"old"))
    assert spent == [0.25, 0.25], "the file and its directory"
    copies = machine.disk.backup(str(path))
    machine.run(lambda: write_atomic(path, b"new"))
    machine.disk.restore(str(path), copies)
    machine.disk.cut()
    assert path.read_bytes() == b"old"


def test_socket_that_was_renamed_or_removed_is_no_file_after_a_power_cut(machine: StubMachine) -> None:
    def work() -> None:
        for name in ("renamed", "removed"):
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(str(machine.root / name))
        os.rename(machine.root / "renamed", machine.root / "public")
        os.unlink(machine.root / "removed")

    for seed in range(SEEDS):
        machine.format(seed)
        machine.run(work)
        machine.disk.cut()
        assert os.listdir(machine.root) == []
