"""Progress of long commands: a bar on a terminal, plain lines elsewhere."""

import time

import pytest

from supervisor.base import progress as module
from supervisor.base.progress import progress
from supervisor.chaos.player import line_count
from supervisor.chaos.script import parse
from tests.bench.main import announced
from tests.unit.supervisor.test_terminal import terminal_for


def test_pipe_gets_only_the_lines_that_stay(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("importing", 3) as shown:
        shown.at("importing x", 1)
        shown.say("done\x1b[2J")
    written = capsys.readouterr()
    assert (written.out, written.err) == ("done\\x1b[2J\n", "")


def test_pipe_long_work_is_named_on_standard_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PLAIN_INTERVAL_S", 0.01)
    text, deadline = "", time.monotonic() + 20
    with progress("importing") as shown:
        shown.at("importing layer 2")
        while "importing layer 2 (0 s)\n" not in text and time.monotonic() < deadline:
            time.sleep(0.01)
            text += capsys.readouterr().err
    assert "importing layer 2 (0 s)\n" in text


def test_terminal_shows_a_bar_that_vanishes(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_for(monkeypatch)
    with progress("stopping", 3) as shown:
        shown.at(f"stopping pleg{' and more' * 20}", 1)
        shown.say("[bold]line[/] that stays\x1b[2J")
    text = terminal.getvalue()
    assert "1/3" in text
    assert "[bold]line[/] that stays\\x1b[2J\n" in text
    assert "\x1b[2J" not in text
    assert text.endswith(("\x1b[2K", "\x1b[?25h")), "the bar is erased, the cursor shown"


def test_line_count_has_repetitions() -> None:
    script = parse("s", "kill store\nrepeat 3\nkill pleg &\njoin\nexpect actor pleg live\nend\n")
    assert line_count(script.steps) == 1 + 3 * 2


def test_benches_are_named_and_timed_on_standard_error_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(announced(["bus", "writes"])) == ["bus", "writes"]
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "1/2 bus\nbus took 0 s\n2/2 writes\nwrites took 0 s\n")
