"""The mark `conform` of pytest-nodeplane: an item for each behaviour of `nodeplane conform`, and of an author."""

import re
import subprocess
import sys
from pathlib import Path

from tests.support.plane import REPO
from tests.support.pytest_plugin import PROJECT, environment

SAMPLE = REPO / "tests" / "support" / "conform_plugin.py"
ONLY = ("registers", "health-words", "list-again", "pre-start", "plugin-killed", "has-three")
PLUGIN = f"""
import sys
import pytest

@pytest.mark.conform("plugin", only={ONLY!r}, behaviours=["mine"], timeout=20)
def test_my_plugin(conform):
    conform(sys.executable, {str(SAMPLE)!r}, "writes_healthy_small")
"""
MINE = """
\"\"\"It has three devices.\"\"\"
from supervisor.conform.verdict import Failed
PHASE, RULE, SOURCE, ADVICE = "list", "There are three.", "our data sheet", "Look at lspci."

async def check(plugin):
    if len(plugin.ids) != 3:
        raise Failed("other devices")
"""


def run(project: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    (project / "pyproject.toml").write_text('[tool.pytest.ini_options]\nfilterwarnings = ["error"]\n')
    options = ["-p", "pytest_nodeplane.plugin", "-p", "no:cacheprovider", "-v", "-rs", "--strict-markers"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, *words],
        cwd=project,
        env=environment(PROJECT / "src"),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def test_each_behaviour_is_an_item_that_says_what_conform_says(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "has_three.py").write_text(MINE)
    (tmp_path / "test_mine.py").write_text(PLUGIN)
    done = run(tmp_path)
    outcomes = dict(re.findall(r"::test_my_plugin\[(\S+)\] (\w+)", done.stdout))
    assert outcomes == {
        "registers": "PASSED",
        "has-three": "PASSED",
        "health-words": "FAILED",
        "list-again": "PASSED",
        "pre-start": "SKIPPED",
        "plugin-killed": "SKIPPED",
    }, done.stdout
    assert "NotConforming: health-words: gpu-0 has the health 'healthy'" in done.stdout
    assert re.search(r"to do +Use the constants of the API", done.stdout)
    assert "not applicable: it needs 1 healthy devices, the plugin lists 0" in done.stdout


WRONG = {
    '("car")': "kind is 'car'; use one of plugin, dra, agent",
    '(only=["nope"])': "no behaviour is called 'nope'",
    '(behaviours=["nowhere"])': "nowhere is not a directory of behaviours",
    "(devices=3)": "unexpected keyword argument 'devices'",
}


def test_wrong_marks_are_errors_of_the_collection(tmp_path: Path) -> None:
    for number, mark in enumerate(WRONG):
        code = f"import pytest\n@pytest.mark.conform{mark}\ndef test_it(conform):\n    conform('true')\n"
        (tmp_path / f"test_wrong_{number}.py").write_text(code)
    done = run(tmp_path, "--collect-only")
    assert [text for text in WRONG.values() if text not in done.stdout + done.stderr] == []
    assert done.stdout.count("ERROR collecting") == len(WRONG)
    assert "conforming.py" not in done.stdout, "one line, and no traceback"
    assert done.returncode != 0


def test_mark_and_fixture_belong_together(tmp_path: Path) -> None:
    code = "import pytest\n@pytest.mark.conform\ndef test_without_fixture():\n    pass\n"
    (tmp_path / "test_mark.py").write_text(code)
    (tmp_path / "test_fixture.py").write_text("def test_without_mark(conform):\n    conform('true')\n")
    done = run(tmp_path, "--continue-on-collection-errors")
    assert "call its fixture, conform" in done.stdout
    assert "it needs the mark conform" in done.stdout
