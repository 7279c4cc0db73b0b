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


def tidied(tmp_path: Path) -> Path:
    """Return a copy with its modules; skip the test if they cannot be had."""
    copied = shutil.copytree(EXAMPLE, tmp_path / "example")  # tidy writes go.sum
    tidy = [str(GO), "mod", "tidy"]
    try:
        done = subprocess.run(tidy, cwd=copied, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip("Go's modules cannot be had: no answer in 60 s")
    if done.returncode:
        pytest.skip(f"Go's modules cannot be had: {done.stderr.strip().splitlines()[-1]}")
    return copied


@pytest.mark.skipif(GO is None, reason="no Go toolchain: go is not installed")
def test_example_passes_its_tests_on_a_node(tmp_path: Path) -> None:
    command = [str(BIN / "nodeplane"), "test", "--", str(GO), "test", "-count=1", "./..."]
    done = subprocess.run(command, cwd=tidied(tmp_path), capture_output=True, text=True, timeout=160, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(GO is None, reason="no Go toolchain: go is not installed")
def test_example_conforms(tmp_path: Path) -> None:
    copied = tidied(tmp_path)
    subprocess.run([str(GO), "build", "-o", "plugin", "."], cwd=copied, timeout=160, check=True)
    script = 'exec ./plugin --kubelet-dir "$NODEPLANE_KUBELET_DIR"'
    command = [str(BIN / "nodeplane"), "conform", "--", "sh", "-c", script]
    done = subprocess.run(command, cwd=copied, capture_output=True, text=True, timeout=160, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
