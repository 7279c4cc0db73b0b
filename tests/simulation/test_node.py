"""A node in the simulation: pods run to their end without a fault, and one seed gives one run."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec

from tests.simulation.model import Outcome

ROOT = Path(__file__).parents[2]


def outcome(seed: int, seconds: float, *more: str) -> Outcome:
    """Return the outcome of a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation.one", "node", str(seed), str(seconds), *more],
        cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": "0"}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.stdout, done.stderr
    return msgspec.json.decode(done.stdout, type=Outcome)


def test_node_without_faults_runs_pods_with_devices(tmp_path: Path) -> None:
    (tmp_path / "none.json").write_text("[]")
    found = outcome(1, 10.0, "--faults", str(tmp_path / "none.json"))
    assert found.broken == []
    assert found.counts["starts"] > 0
    assert found.counts["agent_events"] > 0
    assert any("allocated gpu" in event.text for event in found.events)
    assert found.faults == []


def test_node_with_one_seed_has_one_trace() -> None:
    first, second = outcome(4, 10.0), outcome(4, 10.0)
    assert first.faults
    assert (first.trace, first.turns, first.broken) == (second.trace, second.turns, second.broken)
    assert first.broken == []
