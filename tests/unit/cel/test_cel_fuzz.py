"""The evaluator against the native library, the corpus of found cases, and the fuzzer itself."""

import json
import random
import subprocess
import sys
import time
from typing import Any

import pytest

from protocols.cel.programs import compile_program
from tests.fuzz import native
from tests.fuzz.grammar import HERE, MAKERS
from tests.fuzz.targets import KINDS, TARGETS, replayed, tried
from tests.fuzz.variants import Variants

CORPUS = [json.loads(line) for line in (HERE / "corpus.txt").read_text().splitlines()]
COUNT = 800


def test_outcomes_are_the_native_librarys() -> None:
    texts = list(native.expressions(7, COUNT))
    different = []
    for text, outcome in zip(texts, native.natives(texts), strict=True):
        ours = native.ours(text)
        same = ours == outcome or (ours.startswith("error") and outcome.startswith("error"))
        if not same and not outcome.startswith(("refused", "died")) and not native.known(text, ours, outcome):
            different.append((text, ours, outcome))
    assert different == []


@pytest.mark.parametrize("case", CORPUS)
def test_a_found_case_stays_mended(case: list[Any]) -> None:
    began = time.process_time()
    assert replayed(*case) == ""
    assert time.process_time() - began < 2


@pytest.mark.parametrize("kind", MAKERS)
def test_most_of_the_grammar_passes_the_check(kind: str) -> None:
    chance = random.Random(1)
    counts = [tried(kind, MAKERS[kind](chance, 2), lambda phase: None) for _ in range(60)]
    assert [each.fault for each in counts if each.fault] == []
    assert sum(each.evaluations > 0 for each in counts) > 40
    assert set(TARGETS) == set(MAKERS) == set(KINDS)


def test_variants_differ_and_can_be_made_again() -> None:
    one, other = (compile_program(text).serialized for text in ("[1, 2].map(v, v + 1) == [2]", "[3].exists(v, v > 2)"))
    made = [Variants(one, other).make(number) for number in range(300)]
    assert made == [Variants(one, other).make(number) for number in range(300)]
    assert len({repr(each) for each in made}) > 100
    assert any("exists" not in repr(each) and "_||_" in repr(each) for each in made), "parts of the other text come in"
    assert replayed("selector", "1 == 2", "2 == 3", 50) == ""


def test_the_fuzzer_names_what_kills_and_what_overruns(tmp_path: object) -> None:
    code = (
        "import os, signal, sys, time\n"
        "from tests.fuzz import run\n"
        "from tests.fuzz.targets import Tried\n"
        "def tried(kind, text, phase):\n"
        "    phase('check')\n"
        "    if '7' in text: os.kill(os.getpid(), signal.SIGSEGV)\n"
        "    if '64' in text: return Tried('an evaluation ends with KeyError', 1)\n"
        "    return Tried('', 1)\n"
        "run.tried = tried\n"
        "sys.exit(run.main(1.5, 3))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "check ends the process with status 11" in done.stdout
    assert "an evaluation ends with KeyError" in done.stdout
    assert "fuzz: seconds=" in done.stdout.splitlines()[-1]
