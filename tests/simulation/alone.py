"""A seed of the simulation in a process of its own, as the tests of the profiles run it."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec

from tests.simulation.model import Outcome

ROOT = Path(__file__).parents[2]


def outcome(profile: str, seed: int, seconds: float, *more: str, **environment: str) -> Outcome:
    """Return what `python -m tests.simulation.one` prints, whether or not a promise was broken."""
    command = [sys.executable, "-m", "tests.simulation.one", profile, str(seed), str(seconds), *more]
    variables = {**os.environ, "PYTHONHASHSEED": "0", **environment}
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout, done.stderr
    return msgspec.json.decode(done.stdout, type=Outcome)
