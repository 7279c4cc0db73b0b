"""pytest-nodeplane: its wheel runs its own tests and recipes as a user's pytest does, with two processes of xdist."""

import contextlib
import re
import subprocess
import sys
from email.parser import HeaderParser
from importlib.util import find_spec
from pathlib import Path

import pytest

from deploy.build import version
from tests.support.plane import REPO, until
from tests.support.pytest_plugin import environment, run_pytest, unpack

RECIPES = ("test_recipe_plugin", "test_recipe_driver", "test_recipe_agent")
SET_UP_FAILS = "tests-that-fail/test_report.py::test_whose_set_up_fails"
pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(find_spec("hatchling") is None, reason="hatchling, which builds, is not installed"),
    pytest.mark.skipif(find_spec("xdist") is None, reason="pytest-xdist is not installed"),
]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, as an installation has it."""
    return unpack(tmp_path_factory.mktemp("plugin"))


def test_wheel_has_the_version_of_nodeplane_and_the_license(unpacked: Path) -> None:
    [info] = unpacked.glob("*.dist-info")
    metadata = HeaderParser().parsestr((info / "METADATA").read_text())
    assert metadata["Version"] == version()
    assert (info / "licenses" / "LICENSE").read_text() == (REPO / "LICENSE").read_text()


HANGING = """
import pathlib, time

def test_that_hangs(node):
    process = node.run("sh", "-c", "sleep 600 & exec sleep 600")
    pathlib.Path("new").write_text(f"{process.pid} {node.environment['NODEPLANE_ROOT']}")
    pathlib.Path("new").rename("seen")
    time.sleep(600)
"""


def test_killed_pytest_leaves_neither_programs_nor_a_plane(unpacked: Path, tmp_path: Path) -> None:
    (tmp_path / "test_hanging.py").write_text(HANGING)
    words = [sys.executable, "-m", "pytest", "-p", "nodeplane", "-p", "no:cacheprovider", "test_hanging.py"]
    process = subprocess.Popen(words, cwd=tmp_path, env=environment(unpacked), stdout=subprocess.DEVNULL)
    try:
        until("the program runs", (tmp_path / "seen").exists)
        group, root = (tmp_path / "seen").read_text().split()
        assert members(int(group)) == 2
    finally:
        process.kill()
        process.wait(30)
    until("the program and its child have ended", lambda: not members(int(group)))
    until("the root with keys is removed", lambda: not Path(root).exists())


def members(group: int) -> int:
    """Return the number of processes of a group, without those that only wait to be reaped."""
    found = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, its_group = path.read_text().rpartition(")")[2].split()[:3]
            found += its_group == str(group) and state != "Z"
    return found


def test_two_nodes_of_the_settings_are_reached_by_a_fixture(unpacked: Path) -> None:
    done = run_pytest(unpacked, "-c", "tests-of-two-nodes/pyproject.toml", "tests-of-two-nodes")
    assert done.returncode == 0, done.stdout + done.stderr
    killed = re.findall(r"SIGKILL of devices on \S+-2 at \w+ example.com/gpu\] PASSED", done.stdout)
    assert len(killed) == 1, done.stdout


def test_wheel_is_typed_and_runs_its_tests_and_reports_why_one_fails(unpacked: Path) -> None:
    assert (unpacked / "pytest_nodeplane" / "py.typed").exists()
    xdist = ("-p", "xdist", "-n", "2", "--dist", "loadfile")
    done = run_pytest(unpacked, *xdist, "-c", "pyproject.toml", "tests", "tests-that-fail")
    failed = set(re.findall(r"^FAILED (\S+)", done.stdout, re.MULTILINE))
    assert failed == {"tests-that-fail/test_report.py::test_that_fails"}, done.stdout + done.stderr
    assert re.findall(r"^ERROR (tests\S+)", done.stdout, re.MULTILINE) == [SET_UP_FAILS], done.stdout
    assert "the plugin says why" in done.stdout
    for recipe in RECIPES:
        assert re.search(rf"PASSED tests/{recipe}", done.stdout), recipe
    for section in (
        "events of the test",
        "status",
        "devices",
        "plugins",
        "trace of b",
        "calls",
        "events",
        "log devices",
    ):
        assert re.search(rf"^-+ nodeplane {section} -+$", done.stdout, re.MULTILINE), section
    assert re.search(
        r"^E .*pod b runs: not in 0.5 s. pod/test-\w+/b: pending: no node can run it: .*gpu", done.stdout, re.MULTILINE
    )
    assert re.search("^-+ nodeplane output of sh -+$", done.stdout, re.MULTILINE)
