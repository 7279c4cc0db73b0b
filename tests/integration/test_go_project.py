"""Go projects of `nodeplane new`: formatted, and their tests pass beside a plane where a Go toolchain is at hand."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from supervisor.begin.project import AGENT, DRIVER, PLUGIN, TEMPLATES
from supervisor.cli.main import main
from tests.support.plane import BIN

GO, GOFMT, PROTOC = (shutil.which(name) for name in ("go", "gofmt", "protoc"))
KINDS = [PLUGIN, DRIVER, pytest.param(AGENT, marks=pytest.mark.skipif(PROTOC is None, reason="protoc is missing"))]


@pytest.mark.skipif(GOFMT is None, reason="no Go toolchain: gofmt is not installed")
@pytest.mark.parametrize("kind", [PLUGIN, DRIVER, AGENT])
def test_project_is_formatted(kind: str) -> None:
    folder = TEMPLATES / f"{kind}-go"
    done = subprocess.run([str(GOFMT), "-l", "."], cwd=folder, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == ""


def tidied(project: Path) -> None:
    """Make go.sum; skip the test if the modules cannot be had."""
    tidy = [str(GO), "mod", "tidy"]
    try:
        done = subprocess.run(tidy, cwd=project, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip("Go's modules cannot be had: no answer in 60 s")
    if done.returncode:
        pytest.skip(f"Go's modules cannot be had: {done.stderr.strip().splitlines()[-1]}")


@pytest.mark.skipif(GO is None, reason="no Go toolchain: go is not installed")
@pytest.mark.parametrize("kind", KINDS)
def test_project_passes_its_tests(kind: str, tmp_path: Path) -> None:
    project = tmp_path / "my-thing"
    assert main(["new", kind, "--go", str(project)]) == 0
    variables = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    if kind == AGENT:
        subprocess.run(["make"], cwd=project, env=variables, timeout=60, check=True)
    tidied(project)
    done = subprocess.run(
        ["make", "test"], cwd=project, env=variables, capture_output=True, text=True, timeout=220, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
