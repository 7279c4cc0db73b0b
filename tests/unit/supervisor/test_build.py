"""The version of a distribution, the modules it has, and the libraries that the locks and the code agree on."""

import importlib.util
import json
import re
import subprocess
from importlib.metadata import distributions, packages_distributions, requires
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from protocols.process.settings import GATES
from supervisor.begin.project import TEMPLATES
from supervisor.machine import version as about

REPO = Path(__file__).parents[3]


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("nodeplane_build", REPO / "deploy" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


pytest.importorskip("hatchling", reason="hatchling, which builds, is not installed")
BUILD = load()


def repository(path: Path, *tags: str) -> None:
    """Make a repository with two commits, the first of which has the tags."""
    words = ["-c", "user.name=n", "-c", "user.email=n@example.com"]
    commit = ["git", "-C", str(path), *words, "commit", "-q", "--allow-empty", "-m", "x"]
    subprocess.run(["git", "init", "-q", str(path)], check=True)
    subprocess.run(commit, check=True)
    for tag in tags:
        subprocess.run(["git", "-C", str(path), "tag", tag], check=True)
    subprocess.run(commit, check=True)


@pytest.mark.parametrize(
    ("described", "expected"),
    [
        ("v0.2.0-0-gabc123def", "0.2.0"),
        ("v0.2.0-0-gabc123def-dirty", "0.3.0.dev0+gabc123def.dirty"),
        ("v1.9.3-17-gabc123def", "1.10.0.dev17+gabc123def"),
    ],
)
def test_version_of_a_description_orders_after_its_tag(described: str, expected: str) -> None:
    found = BUILD.version_of(*BUILD.TAG.fullmatch(described).groups())
    assert found == expected
    assert Version(found) >= Version(described.split("-")[0])


def test_version_of_a_tagged_clone_counts_the_commits_since(tmp_path: Path) -> None:
    repository(tmp_path, "v0.4.0", "other")
    assert re.fullmatch(r"0\.5\.0\.dev1\+g[0-9a-f]{9}", BUILD.version(tmp_path, ""))


def test_version_of_a_clone_without_tags_is_one_under_development(tmp_path: Path) -> None:
    repository(tmp_path)
    assert re.fullmatch(rf"{BUILD.UNTAGGED}\.dev2\+g[0-9a-f]{{9}}", BUILD.version(tmp_path, ""))


def test_version_without_git_is_that_of_the_sdist_or_the_packager(tmp_path: Path) -> None:
    assert BUILD.version(tmp_path, "") == f"{BUILD.UNTAGGED}.dev0"
    (tmp_path / "PKG-INFO").write_text("Metadata-Version: 2.4\nName: nodeplane\nVersion: 0.2.1\n\nVersion: 9\n")
    assert BUILD.version(tmp_path, "") == "0.2.1"
    assert BUILD.version(tmp_path, "0.2.1+debian1") == "0.2.1+debian1"


def test_benches_bring_the_support_they_import_and_no_more(tmp_path: Path) -> None:
    for name, text in {
        "bench/main.py": "from tests.support import used\nSTARTED = 'tests.support.started'\n",
        "support/used.py": "import tests.support.deeper\n",
        "support/deeper.py": "",
        "support/started.py": "",
        "support/unused.py": "",
    }.items():
        path = tmp_path / "tests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = [name.removeprefix("tests/") for name in BUILD.bench_modules(tmp_path)]
    assert found == ["bench/main.py", "support/deeper.py", "support/started.py", "support/used.py"]


def pins(lock: str) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", (REPO / lock).read_text(), re.MULTILINE))


def test_locks_agree_and_running_needs_no_development_tools() -> None:
    run, dev = pins("requirements.lock"), pins("requirements-dev.lock")
    assert run.items() <= dev.items()
    assert not {"mypy", "pytest", "ruff", "schemathesis", "hypothesis"} & run.keys()
    assert not {"mypy", "pytest", "ruff", "schemathesis", "hypothesis"} - dev.keys()


def required(distribution: str = "nodeplane") -> set[str]:
    """Return the libraries it requires without extras, and those that these require."""
    named = [Requirement(text) for text in requires(distribution) or ()]
    direct = {canonicalize_name(each.name) for each in named if not (each.marker and "extra" in str(each.marker))}
    return direct.union(*(required(name) for name in direct if name in INSTALLED))


INSTALLED = {canonicalize_name(each.name) for each in distributions()}
IMPORT = re.compile(r"^\s*(?:from (\w+)[\w.]* import|import (\w+))", re.MULTILINE)


def test_the_product_imports_only_libraries_that_it_requires() -> None:
    files = [path for folder in ("protocols", "actors", "supervisor") for path in (REPO / folder).rglob("*.py")]
    files = [path for path in files if TEMPLATES not in path.parents]  # projects with requirements of their own
    files += [REPO / name for name in BUILD.bench_modules(REPO) if "/bench/" in name]
    named = {a or b for path in files for a, b in IMPORT.findall(path.read_text())}
    owners = {name: set(map(canonicalize_name, each)) for name, each in packages_distributions().items()}
    allowed = required() | {"nodeplane"}
    assert {name: owners[name] for name in named & owners.keys() if not owners[name] & allowed} == {}


def test_commit_is_that_of_the_clone_or_of_the_build(tmp_path: Path) -> None:
    built = tmp_path / "built.json"
    assert about.commit_of(tmp_path, built) == ("", False)
    built.write_text(json.dumps({"commit": "c0ffee"}))
    assert about.commit_of(tmp_path, built) == ("c0ffee", False)
    repository(tmp_path)
    head, changed = about.commit_of(tmp_path, built)
    assert re.fullmatch(r"[0-9a-f]{40}", head)
    assert not changed


def test_version_names_every_gate_once_and_its_first_line_is_the_version() -> None:
    found = about.version()
    gates = [gate for document in found.documents.values() for gate in document]
    assert sorted(gates) == sorted(GATES)
    assert about.lines(found)[0] == f"nodeplane {found.version}"
    assert found.libraries["grpcio"]
