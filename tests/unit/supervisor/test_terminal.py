"""Output of commands: colours on a terminal, the same plain text as ever in a pipe."""

import io
import json
import logging
import os
import subprocess
import sys

import pytest

from protocols.errors import NodeplaneError
from protocols.process.texts import LineFormatter, printable
from supervisor.base.errors import LONGEST_ERROR, guard
from supervisor.base.terminal import Table, print_json, show, table, working

ACTORS = Table(("ACTOR", "STATE"), [("store", "live"), ("[bold]pleg[/]", "failed")])
PLAIN = "ACTOR          STATE\nstore          live\n[bold]pleg[/]  failed\n\napi  https://x\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal_for(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make standard output and error a terminal; not a fixture, after which pytest would replace them."""
    made = Terminal()
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(f"sys.{name}", made)
    for name, value in (("TERM", "xterm"), ("COLUMNS", "80"), ("LINES", "24")):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    return made


def test_pipe_gets_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    show(ACTORS, "api  https://x")
    assert capsys.readouterr().out == PLAIN


def test_terminal_gets_states_in_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_for(monkeypatch)
    show(ACTORS, "api  https://x")
    text = terminal.getvalue()
    assert "\x1b[32mlive" in text
    assert "\x1b[1;31mfailed" in text
    assert "[bold]pleg[/]" in text


FORGED = "gpu\x1b[2J\nstore  live\u202e\x9b\u061c"
SHOWN = r"gpu\x1b[2J\nstore  live\u202e\x9b\u061c"


def test_text_of_plugins_forges_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    assert str(Table(("ID", "WHY"), [(FORGED, "x")])).splitlines()[1:] == [f"{SHOWN}  x"]
    assert printable("gpu-0 größe 漢字") == "gpu-0 größe 漢字"
    terminal = terminal_for(monkeypatch)
    show(Table(("ID", "WHY"), [(FORGED, "x")]), f"id  {FORGED}")
    assert SHOWN in terminal.getvalue()
    assert not set("\u202e\x9b\u061c") & set(terminal.getvalue())
    assert "\x1b[2J" not in terminal.getvalue()


def test_log_record_is_one_printable_line() -> None:
    """What a plugin sends reaches the log once, escaped; a traceback follows indented."""
    formatter = LineFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    record = logging.LogRecord("podworker", logging.WARNING, "", 0, "start failed error=%s", (FORGED,), None)
    line = formatter.format(record)
    assert line.endswith(f" WARNING podworker: start failed error={SHOWN}")
    assert line.isprintable()
    try:
        raise RuntimeError(FORGED)
    except RuntimeError:
        record.exc_info, record.msg = sys.exc_info(), "cdi=%s"
    first, *rest = formatter.format(record).split("\n")
    assert first.endswith(f"cdi={SHOWN}")
    assert all(line.startswith("    ") and line.isprintable() for line in rest)


def test_actors_log_by_that_formatter() -> None:
    code = f"from protocols.actor import shell; shell._logger('podworker', 'info').warning('id=%s', {FORGED!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.endswith(f" WARNING podworker: id={SHOWN}\n")


def test_json_escapes_what_terminals_obey(capsys: pytest.CaptureFixture[str]) -> None:
    print_json([FORGED, "größe"])
    out = capsys.readouterr().out
    assert json.loads(out) == [FORGED, "größe"]
    assert not set("\x1b\u202e\x9b") & set(out)
    assert "größe" in out


def test_error_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> int:
        raise NodeplaneError(FORGED)

    assert guard(fail) == 1
    assert capsys.readouterr().err == f"nodeplane: {SHOWN}\n"


def test_error_that_quotes_a_file_is_bounded(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> int:
        raise NodeplaneError("x" * 3_000_000)

    assert guard(fail) == 1
    assert len(capsys.readouterr().err) < LONGEST_ERROR + 20


@pytest.mark.parametrize(
    ("work", "code", "shown"),
    [(r"print('gr\xf6\u65e5')", 0, r"gr\xf6\u65e5"), (r"'a\udcff'.encode()", 2, r": a\udcff is no")],
)
def test_text_that_cannot_be_encoded_is_escaped(work: str, code: int, shown: str) -> None:
    program = f"from supervisor.base.errors import guard; exit(guard(lambda: {work} or 0))"
    command, environment = [sys.executable, "-c", program], os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, shown in done.stdout + done.stderr) == (code, True)


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_for(monkeypatch)
    monkeypatch.setenv("NO_COLOR", "1")
    show(ACTORS)
    assert "[32m" not in terminal.getvalue()


def test_narrow_terminal_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_for(monkeypatch)
    monkeypatch.setenv("COLUMNS", "20")
    show(Table(("NOTE",), [("x" * 50,)]))
    assert terminal.getvalue().count("x") == 50


def test_spinner_only_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with working("importing"):
        pass
    assert capsys.readouterr().err == ""


def test_spinner_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_for(monkeypatch)
    with working("importing"):
        pass
    assert "importing" in terminal.getvalue()
    assert "\x1b[?25h" in terminal.getvalue()  # the cursor is shown again


def test_long_cell_shifts_its_own_row_only() -> None:
    lines = table(("DEVICE", "HEALTH"), [("x" * 1024, "Healthy"), ("gpu-0", "Healthy")]).splitlines()
    assert lines == ["DEVICE  HEALTH", f"{'x' * 1024}  Healthy", "gpu-0   Healthy"]
