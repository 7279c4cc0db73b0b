"""The command line of an actor."""

import pytest

from protocols.actor import shell
from protocols.actor.context import Arguments


def test_settings_alone_name_of_actor_is_instance() -> None:
    assert shell.parse("pleg", ["--settings", "file"]) == Arguments("file", "pleg", "supervisor")


def test_all_flags_are_taken() -> None:
    words = ["--supervisor=s", "--settings", "file", "--instance", "pleg-2"]
    assert shell.parse("pleg", words) == Arguments("file", "pleg-2", "s")


@pytest.mark.parametrize("words", [[], ["--settings"], ["--settings", "f", "more"], ["--settings", "f", "--bad"]])
def test_wrong_flags_usage_and_code_2(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[tuple[str, int]] = []
    monkeypatch.setattr(shell, "_leave", lambda line, code: left.append((line, code)))
    shell.parse("pleg", words)
    [(line, code)] = left
    assert "usage: actors.pleg --settings FILE" in line
    assert code == 2
