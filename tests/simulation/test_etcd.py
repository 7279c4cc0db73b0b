"""The model etcd answers as etcd does, in virtual time, the same way in each run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.alone import outcome

ROOT = Path(__file__).parents[2]
EXPECTED = {
    "statuses": "3",
    "created": "True",
    "created again": "False",
    "watched": "[2]",
    "silence": "NotSent",
    "leader lost": "True",
    "no space": "NoSpace",
    "space again": "True",
    "one member left": "True",
    "compacted": "Compacted",
}


def tried(seed: int) -> dict[str, str]:
    command = [sys.executable, "-m", "tests.simulation.etcd.tried", str(seed)]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    ran = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return dict(line.split(": ", 1) for line in ran.stdout.splitlines())


@pytest.mark.parametrize("seed", [1, 2])
def test_each_fault_has_the_answer_of_etcd(seed: int) -> None:
    found = tried(seed)
    trace = found.pop("trace")
    assert found == EXPECTED
    assert tried(seed)["trace"] == trace


def test_lost_profile_loses_a_write_that_somebody_acts_on_and_converges() -> None:
    found = outcome("lost", 1, 10)
    assert found.broken == []
    assert [event.process for event in found.events if event.text.startswith("restored from revision")] == ["etcd"]


def test_restored_profile_loses_revisions_once_and_converges() -> None:
    found = outcome("restored", 1, 6)
    assert found.broken == []
    assert [event.process for event in found.events if event.text.startswith("restored from revision")] == ["etcd"]
