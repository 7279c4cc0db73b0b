"""The table of mutants fits today's files; the hook that imports one; what a search prints."""

import importlib
import json
import subprocess
import sys

import pytest

from tests.simulation import profiles
from tests.simulation.mutants import __main__ as command
from tests.simulation.mutants.hook import ROOT, Mutant, StaleMutant, TooLate, changed, install
from tests.simulation.mutants.table import MUTANTS
from tests.simulation.run.arguments import arguments

BACKOFF = Mutant(
    "test-backoff", "protocols/process/rates.py", old="def backoff_delay(", new="def another_name(", mistake="None."
)


def test_mutants_fit_their_files_and_compile() -> None:
    for mutant in MUTANTS:
        text = changed(mutant, (ROOT / mutant.file).read_text())  # raises StaleMutant with its name
        compile(text, mutant.file, "exec", dont_inherit=True)


def test_mutants_have_names_profiles_and_a_mistake_of_one_line() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names)
    assert {mutant.profile for mutant in MUTANTS} <= {*profiles.PLACES}
    assert [mutant.name for mutant in MUTANTS if not mutant.mistake.endswith(".") or "\n" in mutant.mistake] == []


def test_changed_of_a_text_that_is_gone_or_there_twice_is_stale() -> None:
    for text in ("nothing", "def backoff_delay( def backoff_delay("):
        with pytest.raises(StaleMutant, match=r"test-backoff: its old text is [02] times in protocols"):
            changed(BACKOFF, text)


def test_install_after_the_import_is_too_late() -> None:
    importlib.import_module(BACKOFF.module)
    with pytest.raises(TooLate, match="is imported already"):
        install(BACKOFF)


def test_installed_mutant_is_what_gets_imported() -> None:
    """In a process of its own; bytecode of the file as it is must not be loaded."""
    importlib.import_module(BACKOFF.module)
    code = f"""
from tests.simulation.mutants.hook import Mutant, install
install(Mutant("x", {BACKOFF.file!r}, {BACKOFF.old!r}, {BACKOFF.new!r}, "None."))
from protocols.process import rates
print(hasattr(rates, "another_name"), hasattr(rates, "backoff_delay"), rates.__file__.endswith("rates.py"))
"""
    asked = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert asked.stdout.split() == ["True", "False", "True"]


def test_main_with_an_unknown_mutant_ends_with_2(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    assert command.main(["MUTANT=none"]) == 2
    assert capfd.readouterr().err.startswith("mutants: unknown MUTANT=none: use some of ack, ")


def test_lines_of_a_search_name_seeds_promises_and_survivors() -> None:
    found, survivor = command.Found(7, 3.2, None, ()), command.Found(1, 0.5, None, ())
    mutant = MUTANTS[0]
    assert command.line(mutant, survivor) == f"{mutant.name:<24} SURVIVED 1 seed: {mutant.mistake}"
    assert "SURVIVED 7 seeds" in command.line(mutant, found)


def test_missed_mutant_runs_by_its_name_only() -> None:
    missed = [mutant for mutant in MUTANTS if mutant.missed]
    others = [mutant for mutant in MUTANTS if not mutant.missed]
    assert command.chosen(arguments([], profiles.PLACES, command.KEYS)) == others
    for mutant in (missed[0], others[0]):
        assert command.chosen(arguments([f"MUTANT={mutant.name}"], profiles.PLACES, command.KEYS)) == [mutant]
    assert json.loads(command.summary({}, [], 0))["missed"] == [mutant.name for mutant in missed]
