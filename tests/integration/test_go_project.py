"""Go projects of `nodeplane new` as written: they are formatted, conform finds nothing, and their tests pass."""

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from supervisor.begin.project import AGENT, DRIVER, PLUGIN, TEMPLATES
from supervisor.cli.main import main
from tests.support.go_build import go_environment, missing, modules_missing
from tests.support.plane import BIN

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(missing() != "", reason=f"Go cannot be built: {missing()} is not installed"),
]
CONFORM = {
    PLUGIN: ["--break", "echo device-0 > broken-devices.txt", "--mend", "rm broken-devices.txt"],
    DRIVER: ["--kind", "dra"],
    AGENT: ["--kind", "agent", "--only", "calls,whole-picture,resumes,no-watch,ends-at-sigterm"],
}
STUBS = {PLUGIN: "deviceplugin", DRIVER: "dra", AGENT: "podresources"}
NAMES = {PLUGIN: ["--resource", "acme.test/card"], DRIVER: ["--driver", "cards.acme.test"], AGENT: []}


class Projects(NamedTuple):
    """Built projects, one beside the other."""

    folder: Path
    variables: dict[str, str]

    def run(self, project: str, *words: str) -> str:
        directory = self.folder / project
        done = subprocess.run(
            words, cwd=directory, env=self.variables, capture_output=True, text=True, timeout=220, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory) -> Projects:
    path = tmp_path_factory.mktemp("go")
    variables = go_environment(path)
    found = Projects(path / "src" / "example.com", {**variables, "PATH": f"{BIN}:{variables['PATH']}"})
    for kind, stubs in STUBS.items():
        assert main(["new", kind, "--go", str(found.folder / kind), *NAMES[kind]]) == 0
        found.run(kind, "make", stubs)
        found.run(kind, "go", "build", "-o", kind, ".")
    return found


def test_projects_are_formatted() -> None:
    done = subprocess.run(["gofmt", "-l", TEMPLATES], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == ""


@pytest.mark.parametrize("kind", STUBS)
def test_project_builds_with_the_modules_of_its_go_mod(kind: str, projects: Projects) -> None:
    if reason := modules_missing(projects.folder / kind):
        pytest.skip(reason)
    modules = projects._replace(variables=dict(os.environ))
    for words in (["mod", "tidy"], ["vet", "./..."], ["build", "-o", os.devnull, "."]):
        modules.run(kind, "go", *words)


@pytest.mark.parametrize("kind", CONFORM)
def test_project_has_no_finding(kind: str, projects: Projects) -> None:
    assert ", 0 fail, " in projects.run(kind, "nodeplane", "conform", *CONFORM[kind], "--", f"./{kind}")


def test_projects_pass_their_tests_on_one_plane(projects: Projects) -> None:
    each = " ".join(STUBS)
    script = f"for project in {each}; do (cd $project && go test -vet=off -v .) || exit; done"
    shown = projects.run(".", "nodeplane", "test", "--", "sh", "-c", script)
    assert shown.count("--- PASS: ") == 5
    assert "--- SKIP" not in shown
