"""The crash tests that are text: each script of scripts/ is played by `nodeplane chaos script`, under witnesses.

NODEPLANE_CRASH_SEED=N replays the choices of a run that failed; it is printed with the failure.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.equality import nothing_left
from tests.support.plane import Plane
from tests.support.seed import SEED
from tests.support.witnesses import Witnesses, container_of, pod, with_devices

REAL = "control-plane-dies", "node-dies"
"""The simulation plays every script; without `make crash` these are played with real processes, too."""
FOUND = sorted((Path(__file__).parent / "scripts").glob("*.txt"))
SCRIPTS = [path for path in FOUND if path.stem in REAL or "NODEPLANE_CRASH_SEED" in os.environ]


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """A plane with a resident pod and two free devices; in the end nothing is left over."""
    with Plane() as plane:
        with_devices(plane)
        for name in ("first", "resident"):
            plane.apply(pod(name, devices=2))
            plane.pod_ready(name)
        plane.kubectl("delete", "pod", "first")  # gpu-0 and gpu-1 are for the scripts
        yield plane
        plane.settled()
        nothing_left(plane)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_script(plane: Plane, script: Path) -> None:
    """Whatever it breaks, all that was told adds up, and who was not touched runs on."""
    before = container_of(plane, "resident")
    with Witnesses(plane):
        print(plane.nodeplane("chaos", "script", str(script), "--seed", str(SEED), timeout=200))
    assert container_of(plane, "resident") == before
