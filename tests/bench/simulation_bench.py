"""Speed of the simulation: seconds of load on virtual time in a second of one core's CPU time, without faults.

Seeds are those with real limits. Neither imports count, since `make simulate` forks from a process that has them, nor
the 30 virtual seconds without load at the end of a run. The start of the plane counts.
"""

import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import msgspec

from tests.bench.row import Row, Unmeasured, at_least

SECONDS = 60.0
RUNS = 3
LONGEST_S = 1800.0


class Load(NamedTuple):
    profile: str
    seeds: tuple[int, ...]
    counted: str
    """What of the run's counts is the load."""
    per_s: float
    target: float


class Run(msgspec.Struct):
    """What is needed of the outcome of a run."""

    load_cpu_s: float
    counts: dict[str, int]


LOADS = (
    Load("control", (20, 37, 40), "acknowledged", 50.0, 100.0),
    Load("node", (3, 7, 9), "pods", 2.0, 60.0),
    Load("plane", (20, 40, 49), "pods", 2.0, 60.0),
)
NAMES = {"acknowledged": "writes", "pods": "pods"}


def run() -> list[Row]:
    if find_spec("tests.simulation") is None:
        raise Unmeasured("an installation has no tests/simulation: run it in a clone")
    return [row for load in LOADS for row in _rows(load)]


def _rows(load: Load) -> list[Row]:
    runs = [_run(load.profile, seed) for seed in load.seeds[:RUNS]]
    name = NAMES[load.counted]
    return [
        at_least(
            f"simulation, {load.profile}: times real", [SECONDS / each.load_cpu_s for each in runs], "x", load.target
        ),
        at_least(
            f"simulation, {load.profile}: {name}",
            [each.counts[load.counted] / SECONDS for each in runs],
            "/s",
            load.per_s,
        ),
    ]


def _run(profile: str, seed: int) -> Run:
    """Run a seed without faults. Raises RuntimeError with the end of what it printed."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as faults:
        faults.write("[]")
        faults.flush()
        command = [sys.executable, "-m", "tests.simulation.one", profile, str(seed), str(SECONDS)]
        ended = subprocess.run(
            [*command, "--faults", faults.name],
            capture_output=True,
            cwd=Path(__file__).parents[2],
            timeout=LONGEST_S,
            check=False,
        )
    if ended.returncode not in (0, 1):  # 1: a promise is broken, which costs no row of speed
        raise RuntimeError(f"{profile} seed {seed}: {ended.stderr.decode()[-500:]}")
    return msgspec.json.decode(ended.stdout, type=Run)
