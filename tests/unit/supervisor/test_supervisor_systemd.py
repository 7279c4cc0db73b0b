"""What the supervisor sends to systemd: readiness, the watchdog, levels of lines in the journal."""

import asyncio
import os
import socket
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from supervisor.base import journal
from supervisor.base.errors import UsageError, guard
from supervisor.base.journal import ERROR, INFO, NOTICE, WARNING, for_journal, is_journal, level_of
from supervisor.plane.supervisor import TICK_LIMIT_S, Supervisor
from supervisor.report.console import Console
from supervisor.report.systemd import Notifier


@pytest.mark.parametrize("abstract", [False, True])
def test_notifier_reaches_path_and_abstract_sockets(root: Path, abstract: bool) -> None:
    name = f"@{root}/notify" if abstract else f"{root}/notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(name.replace("@", "\0"))
        notifier = Notifier({"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "15000000", "WATCHDOG_PID": str(os.getpid())})
        notifier.ready("up")
        notifier.status("up")
        notifier.status("1 of 2")
        notifier.alive()
        notifier.stopping()
        told = [listener.recv(100) for _ in range(4)]
        assert told == [b"READY=1\nSTATUS=up", b"STATUS=1 of 2", b"WATCHDOG=1", b"STOPPING=1"]


def test_notifier_readiness_that_a_busy_systemd_did_not_take_is_sent_again(root: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(f"{root}/notify")
        notifier = Notifier({"NOTIFY_SOCKET": f"{root}/notify"})
        queued = _fill(f"{root}/notify")
        notifier.ready("up")
        notifier.status("up")
        assert [listener.recv(100) for _ in range(queued)] == [b"other"] * queued
        notifier.status("up")
        notifier.status("up")
        assert listener.recv(100) == b"READY=1\nSTATUS=up"
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.recv(100)


def _fill(address: str) -> int:
    """Send until the queue is full; return the number of messages."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        sock.connect(address)
        for count in range(100_000):
            try:
                sock.send(b"other")
            except BlockingIOError:
                return count
    raise AssertionError("the queue has no end")


def test_notifier_without_listener_or_for_another_process_is_silent(root: Path) -> None:
    Notifier({}).ready("nobody listens")
    Notifier({"NOTIFY_SOCKET": str(root / "notify")}).stopping()
    assert Notifier({"WATCHDOG_USEC": "15000000", "WATCHDOG_PID": "1"}).watchdog_s == 0
    assert Notifier({"WATCHDOG_USEC": "soon"}).watchdog_s == 0


@pytest.mark.parametrize(("age", "fed"), [(0.5, 1), (TICK_LIMIT_S + 1, 0)])
async def test_watchdog_starves_once_the_tree_is_not_ticked(
    monkeypatch: pytest.MonkeyPatch, age: float, fed: int
) -> None:
    """The event loop runs on, but no pass over the actors was made."""
    told: list[str] = []
    turns = iter([None])

    async def second(_: float) -> None:
        if next(turns, "end") == "end":
            raise asyncio.CancelledError

    notifier = SimpleNamespace(alive=lambda: told.append("alive"), status=lambda text: None)
    supervisor = object.__new__(Supervisor)
    supervisor.__dict__.update(
        _link=None,
        _console=Mock(),
        _settings=Mock(),
        _tree=SimpleNamespace(ticked_s=lambda: age, children={}),
        _notifier=notifier,
        _check_files=lambda: None,
    )
    monkeypatch.setattr(asyncio, "sleep", second)
    with pytest.raises(asyncio.CancelledError):
        await supervisor._every_second()
    assert len(told) == fed


def test_journal_is_known_by_device_and_inode(root: Path) -> None:
    reading, writing = os.pipe()
    try:
        found = os.fstat(writing)
        assert is_journal(writing, {"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}"})
        assert not is_journal(writing, {"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino + 1}"})
        assert not is_journal(writing, {})
    finally:
        os.close(reading)
        os.close(writing)
    assert not is_journal(writing, {"JOURNAL_STREAM": "1:1"})


def test_level_is_that_of_the_line() -> None:
    assert level_of("10:00:00 ERROR a thing failed") == ERROR
    assert level_of("WARNING: an error may follow") == ERROR
    assert level_of("10:00:00 WARNING a thing is late") == WARNING
    assert level_of("the supervisor speaks") == NOTICE
    assert for_journal("one\ntwo", INFO) == "<6>one\n<6>two"


def test_console_writes_levels_to_the_journal_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Console("supervisor").ready("a table\nof lines")
    monkeypatch.setattr(journal, "is_journal", lambda descriptor: True)
    console = Console("supervisor")
    console.ready("a table\nof lines")
    console.say("an actor ended")
    console.failed("the plane ended")
    out, err = capsys.readouterr()
    assert out == "a table\nof lines\n"
    assert err == "<6>a table\n<6>of lines\n<5>supervisor: an actor ended\n<3>nodeplane: the plane ended\n"


def test_command_that_fails_is_an_error_in_the_journal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> int:
        raise UsageError("the flag is wrong")

    monkeypatch.setattr(journal, "is_journal", lambda descriptor: True)
    assert guard(fail) == 2
    assert capsys.readouterr().err == "<3>nodeplane: the flag is wrong\n"
