"""examples/go-plugin: formatted, and its tests pass beside a plane where a Go toolchain and its modules are at hand."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.plane import BIN, REPO

EXAMPLE = REPO / "examples" / "go-plugin"
GO, GOFMT = shutil.which("go"), shutil.which("gofmt")


@pytest.mark.skipif(GOFMT is None, reason="no Go toolchain: gofmt is not installed")
def test_example_is_formatted() -> None:
    done = subprocess.run([str(GOFMT), "-l", "."], cwd=EXAMPLE, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == ""


@pytest.mark.skipif(GO is None, reason="no Go toolchain: go is not installed")
def test_example_passes_its_tests_on_a_node(tmp_path: Path) -> None:
    copied = shutil.copytree(EXAMPLE, tmp_path / "example")  # tidy writes go.sum
    tidy = [str(GO), "mod", "tidy"]
    try:
        tidied = subprocess.run(tidy, cwd=copied, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip("Go's modules cannot be had: no answer in 60 s")
    if tidied.returncode:
        pytest.skip(f"Go's modules cannot be had: {tidied.stderr.strip().splitlines()[-1]}")
    command = [str(BIN / "nodeplane"), "test", "--", str(GO), "test", "-count=1", "./..."]
    done = subprocess.run(command, cwd=copied, capture_output=True, text=True, timeout=160, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
