"""Limits in the kernel's own version 2 hierarchy, beside whatever the machine has mounted."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cgroup2_life import UNABLE

REPO = Path(__file__).parents[2]


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None, reason="a mount namespace needs root and unshare"
)
def test_a_containers_group_in_a_real_version_2_hierarchy(tmp_path: Path) -> None:
    place = tmp_path / "top"
    place.mkdir()
    command = ["unshare", "--mount", sys.executable, "-m", "tests.support.cgroup2_life", str(place)]
    done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode == UNABLE or "unshare failed" in done.stderr:
        pytest.skip((done.stdout or done.stderr).strip())
    assert (done.returncode, done.stdout) == (0, "held\n"), done.stderr
