"""Go projects of `nodeplane new` as written: they are formatted, conform finds nothing, and their tests pass."""

import subprocess
from pathlib import Path

import pytest

from supervisor.begin.project import AGENT, PLUGIN, TEMPLATES
from supervisor.cli.main import main
from tests.support.go_build import go_environment, missing
from tests.support.plane import BIN

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(missing() != "", reason=f"Go cannot be built: {missing()} is not installed"),
]
CONFORM = {
    PLUGIN: ["--break", "echo device-0 > broken-devices.txt", "--mend", "rm broken-devices.txt"],
    AGENT: ["--kind", "agent", "--only", "calls,whole-picture,resumes,no-watch,ends-at-sigterm"],
}
STUBS = {PLUGIN: "deviceplugin", AGENT: "podresources"}


def test_projects_are_formatted() -> None:
    done = subprocess.run(["gofmt", "-l", TEMPLATES], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == ""


@pytest.mark.parametrize("kind", CONFORM)
def test_project_has_no_finding_and_passes_its_tests(kind: str, tmp_path: Path) -> None:
    project = tmp_path / "src" / "example.com" / "my-thing"
    assert main(["new", kind, "--go", str(project)]) == 0
    variables = go_environment(tmp_path)
    variables["PATH"] = f"{BIN}:{variables['PATH']}"

    def run(*words: str) -> str:
        done = subprocess.run(
            words, cwd=project, env=variables, capture_output=True, text=True, timeout=220, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("make", STUBS[kind])
    run("go", "build", "-o", "my-thing", ".")
    assert ", 0 fail, " in run("nodeplane", "conform", *CONFORM[kind], "--", "./my-thing")
    tested = run("nodeplane", "test", "--", "go", "test", "-vet=off", "-v", ".")
    assert "--- PASS" in tested
    assert "--- SKIP" not in tested
