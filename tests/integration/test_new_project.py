"""Projects of `nodeplane new` work as written: stubs are built, linters and conform pass, pods get devices."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor.cli.main import main
from tests.support.plane import BIN, REPO
from tests.support.pytest_plugin import unpack

pytest.importorskip("hatchling", reason="hatchling, which builds pytest-nodeplane, is not installed")
pytestmark = pytest.mark.heavy
PROGRAMS = {"plugin": "plugin.py", "dra-driver": "driver.py", "agent": "agent.py"}
OTHERS = {"plugin": ("--resource", "acme.test/card"), "dra-driver": ("--driver", "cards.acme.test"), "agent": ()}


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables of a user who has installed nodeplane, pytest-nodeplane and what the requirements name."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "NODEPLANE_"))}
    return {
        **kept,
        "PATH": f"{BIN}:{Path(sys.executable).parent}:{kept['PATH']}",
        "PYTHONPATH": f"{unpack(tmp_path_factory.mktemp('plugin'))}:{REPO}",
        "PYTEST_PLUGINS": "pytest_nodeplane.plugin",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "MYPY_CACHE_DIR": str(tmp_path_factory.mktemp("mypy")),
    }


def run(words: list[str], directory: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        words, cwd=directory, env=environment, capture_output=True, text=True, timeout=220, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", PROGRAMS)
def test_python_project_is_lint_clean_and_passes_its_tests(
    kind: str, environment: dict[str, str], tmp_path: Path
) -> None:
    project = tmp_path / "my-thing"
    assert main(["new", kind, "--python", str(project), *OTHERS[kind]]) == 0
    run(["make"], project, environment)
    run(["ruff", "check", "."], project, environment)
    run(["ruff", "format", "--check", "."], project, environment)
    run(["mypy", PROGRAMS[kind], "tests"], project, environment)
    shown = run(["make", "test"], project, environment)
    assert " passed" in shown
    assert ", 0 fail, " in shown
