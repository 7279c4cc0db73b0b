"""pytest-nodeplane as a user has it: its wheel unpacked, and a pytest that finds no other plugin."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.support.plane import REPO

PROJECT = REPO / "deploy" / "pytest-nodeplane"


def unpack(place: Path) -> Path:
    """Build the wheel below `place`; return the folder that it would be installed into."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place)]
    subprocess.run(build, cwd=PROJECT, check=True, timeout=60, capture_output=True)
    with zipfile.ZipFile(next(place.glob("*.whl"))) as wheel:
        wheel.extractall(place / "site")
    return place / "site"


def environment(unpacked: Path) -> dict[str, str]:
    """Return the variables of a user's environment in which the wheel is installed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "NODEPLANE_"))}
    found = os.pathsep.join(map(str, (unpacked, PROJECT / "tests", PROJECT / "tests-of-recipes", REPO)))
    return {**kept, "PYTHONPATH": found, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def run_pytest(unpacked: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run pytest with the unpacked wheel as a user's environment does, and no other plugin that is installed here."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "nodeplane", "-v", "--tb=short", "-p", "no:cacheprovider", *words],
        cwd=PROJECT,
        env=environment(unpacked),
        capture_output=True,
        text=True,
        timeout=220,
        check=False,
    )
