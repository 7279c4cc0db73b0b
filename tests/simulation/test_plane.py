"""A plane in the simulation: pods that a user creates are scheduled and run with devices on both nodes."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec

from tests.simulation.model import Outcome

ROOT = Path(__file__).parents[2]


def test_plane_without_faults_runs_pods_on_both_nodes(tmp_path: Path) -> None:
    (tmp_path / "none.json").write_text("[]")
    command = [
        sys.executable,
        "-m",
        "tests.simulation.one",
        "plane",
        "2",
        "10",
        "--faults",
        str(tmp_path / "none.json"),
    ]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": "0"}, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert done.stdout, done.stderr
    found = msgspec.json.decode(done.stdout, type=Outcome)
    assert found.broken == []
    assert found.counts["starts"] >= found.counts["pods"] / 2
    given = [(event.process, event.text) for event in found.events]
    for plugin in ("n1.plugin-gpu", "n2.plugin-gpu"):
        assert any(process == plugin and "allocated gpu" in text for process, text in given)
