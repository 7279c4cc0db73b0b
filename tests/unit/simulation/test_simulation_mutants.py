"""The table of mutants fits today's files; the hook that imports one; what a search prints."""

import importlib
import subprocess
import sys
from collections.abc import Sequence

import msgspec
import pytest

from tests.simulation import profiles
from tests.simulation.model import Broken, Outcome, RunOptions
from tests.simulation.mutants import __main__ as command
from tests.simulation.mutants.hook import ROOT, Mutant, StaleMutant, TooLate, changed, install
from tests.simulation.mutants.search import Found, Hunt, Search, line
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
    several, one = Found(7, 3.2), Found(1, 0.5)
    mutant = MUTANTS[0]
    assert line(mutant, one) == f"{mutant.name:<24} SURVIVED 1 seed: {mutant.mistake}"
    assert "SURVIVED 7 seeds" in line(mutant, several)
    assert line(mutant, one, "out of memory") == f"{mutant.name:<24} no answer: out of memory"


def test_seed_that_fails_without_the_mutant_finds_none_and_the_search_goes_on() -> None:
    """The product fails at seed 3, the mutant at 3 and 5, another at 3 only."""
    hunt = Hunt(1, seek=lambda search: _seek(search, (3, 5) if search.mutant is BACKOFF else (3,)), unchanged=_fails)
    other = msgspec.structs.replace(BACKOFF, name="other")
    lines = list(hunt.lines([Search(BACKOFF, 1, 8, 2.0), Search(other, 1, 8, 2.0)]))
    assert lines[0] == "FAILED make simulate PROFILE=store SEED=3 SECONDS=2 without test-backoff: durable"
    assert [each.split()[:3] for each in lines[2:]] == [["test-backoff", "5", "seeds"], ["other", "SURVIVED", "8"]]
    assert [result.options.seed for result in hunt.failing] == [3]
    found = hunt.found["test-backoff"].options
    assert found is not None
    assert found.seed == 5


def _seek(search: Search, breaking: Sequence[int]) -> Found:
    for seed in range(search.first, search.first + search.left):
        if seed in breaking:
            options = RunOptions(profile="store", seed=seed, seconds=search.seconds, mutant=search.mutant.name)
            return Found(search.tried + seed + 1 - search.first, 1.0, options, ("durable",))
    return Found(search.tried + search.left, 1.0)


def _fails(options: RunOptions) -> Outcome:
    assert not options.mutant
    broken = [Broken("durable", "a write is lost")] if options.seed == 3 else []
    return Outcome(
        profile=options.profile, seed=options.seed, virtual_s=1.0, real_s=1.0, turns=1, messages=1, faults=[],
        broken=broken, trace="", limits={}, counts={}, events=[],
    )  # fmt: skip


def test_chosen_are_all_mutants_or_those_of_a_name() -> None:
    assert command.chosen(arguments([], profiles.PLACES, command.KEYS)) == list(MUTANTS)
    assert command.chosen(arguments([f"MUTANT={MUTANTS[1].name}"], profiles.PLACES, command.KEYS)) == [MUTANTS[1]]
