"""The mark `kill_at_every_step`: it names the steps that a plugin with a bug does not survive, and no other."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.pytest_plugin import PROJECT, environment

pytestmark = pytest.mark.heavy


def run(place: Path, *words: str) -> str:
    options = ["-p", "pytest_nodeplane.plugin", "-v", "--tb=short", "-c", "tests-of-steps/pyproject.toml"]
    options += ["-o", f"cache_dir={place}", "tests-of-steps"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *words],
        cwd=PROJECT,
        env=environment(PROJECT / "src"),
        capture_output=True,
        text=True,
        timeout=220,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def outcomes(output: str, test: str) -> dict[str, str]:
    """Return the outcomes of a test's kills, such as `devices at Allocate example.com/gpu`."""
    pattern = rf"^\S+{test}\[step \d+ of \d+: SIGKILL of ([^\]]+)\] (\w+)"
    return dict(re.findall(pattern, output, re.MULTILINE))


def test_mark_names_the_steps_that_a_bug_does_not_survive_and_runs_those_again(tmp_path: Path) -> None:
    output = run(tmp_path, "--nodeplane-seed=1")
    assert list(outcomes(output, "test_right").values()) == ["PASSED"], output
    assert outcomes(output, "test_registers_once") == {
        "devices at GetDevicePluginOptions example.com/gpu": "PASSED",
        "devices at ListAndWatch example.com/gpu": "FAILED",
    }, output
    assert list(outcomes(output, "test_lock_file").values()) == ["FAILED"], output
    first = r"^E .*: does not survive: step \d+ of \d+: SIGKILL of {}: .*{}"
    lost = first.format("devices at ListAndWatch example.com/gpu", "did not come back: .*no Register since")
    assert re.search(lost, output, re.MULTILINE), output
    locked = first.format("faulty.py at .*", r"faulty.py has ended with 1, its last line: another plugin runs")
    assert re.search(locked, output, re.MULTILINE), output
    assert re.search(r"^\S+test_right: 1 of \d+ kills, chosen by --nodeplane-seed=1$", output, re.MULTILINE), output

    again = run(tmp_path, "--nodeplane-seed=1", "--lf", "-k", "right or lock_file")
    assert outcomes(again, "test_lock_file") == outcomes(output, "test_lock_file"), again
    assert "test_right" not in again, again
    assert re.search(r"test_lock_file: 1 of 1 kills, failed in the last run$", again, re.MULTILINE), again
