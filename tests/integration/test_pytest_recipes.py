"""The recipes of pytest-nodeplane find the bugs that they are for."""

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.pytest_plugin import run_pytest, unpack

ONE_EACH = "registers_once or reports_no_health or more_files or gives_up"
"""A bug for each recipe. All of them wait for a minute and a half for what does not happen."""
pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(find_spec("hatchling") is None, reason="hatchling, which builds, is not installed"),
    pytest.mark.skipif(find_spec("xdist") is None, reason="pytest-xdist is not installed"),
]


def test_each_recipe_fails_for_programs_with_the_bugs_it_is_for(tmp_path: Path) -> None:
    chosen = () if os.environ.get("NODEPLANE_FUZZ") else ("-k", ONE_EACH)
    words = ("-p", "xdist", "-n", "2", "-c", "tests-of-recipes/pyproject.toml", *chosen, "tests-of-recipes")
    done = run_pytest(unpack(tmp_path), *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f" {8 if not chosen else 4} passed" in done.stdout, done.stdout
