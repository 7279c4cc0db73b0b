"""The house keeps its walls: who may import whom (DESIGN: imports point one way)."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
OURS = {"protocols", "actors", "supervisor", "tests"}
ACTORS = sorted(path.name for path in (ROOT / "actors").iterdir() if (path / "__init__.py").exists())


def modules(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements below a node; most of a tree are expressions, which hold no imports."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield node
            yield from statements(node)


@cache
def imported(path: Path) -> set[str]:
    """Dotted names of all our own modules that the file imports, at any depth of its code."""
    names: set[str] = set()
    for node in statements(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import; name the whole path"
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return {name for name in names if name.split(".")[0] in OURS}


def strangers(path: Path, allowed: tuple[str, ...]) -> list[str]:
    return sorted(name for name in imported(path) if not any(f"{name}.".startswith(f"{root}.") for root in allowed))


def strange(folder: Path, *allowed: str) -> dict[str, list[str]]:
    """Return what is imported beside the allowed packages, by file."""
    found = {str(path): strangers(path, allowed) for path in modules(folder)}
    return {path: names for path, names in found.items() if names}


def test_protocols_knows_nobody() -> None:
    assert strange(ROOT / "protocols", "protocols") == {}


@pytest.mark.parametrize("actor", ACTORS)
def test_an_actor_imports_only_itself_and_protocols(actor: str) -> None:
    assert strange(ROOT / "actors" / actor, "protocols", f"actors.{actor}") == {}


def test_supervisor_never_imports_an_actor() -> None:
    assert strange(ROOT / "supervisor", "protocols", "supervisor") == {}


@pytest.mark.parametrize("actor", ACTORS)
def test_every_actor_says_why_it_exists(actor: str) -> None:
    module = ast.parse((ROOT / "actors" / actor / "actor.py").read_text())
    words = ast.get_docstring(module) or ""
    assert "kill -9" in words, f"actors/{actor}/actor.py must say what it owns and what it may lose on kill -9"


def test_source_files_stay_readable() -> None:
    files = [path for root in ("protocols", "actors", "supervisor") for path in modules(ROOT / root)]
    long = {
        str(path.relative_to(ROOT)): len(path.read_text().splitlines())
        for path in files
        if not path.name.endswith("_pb2.py")
    }
    assert {name: lines for name, lines in long.items() if lines > 600} == {}


@pytest.mark.parametrize("package", ["protocols", "supervisor", *(f"actors/{actor}" for actor in ACTORS)])
def test_no_module_needs_one_that_needs_it(package: str) -> None:
    files = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in modules(ROOT / package)}
    needs = {name: {_module(files, other) for other in imported(path)} for name, path in files.items()}
    while done := [name for name, others in needs.items() if not (others - {name}) & needs.keys()]:
        for name in done:
            del needs[name]
    assert sorted(needs) == []


LAYERED = (
    "adopt",
    "apiserver",
    "controllers",
    "cri",
    "devices",
    "frontdoor",
    "health",
    "pleg",
    "podworker",
    "runtime",
    "scheduler",
    "simulator",
    "store",
    "watchcache",
)
"""Actors whose folders are floors already."""


@pytest.mark.parametrize("package", ["supervisor", *(f"actors/{actor}" for actor in LAYERED)])
def test_folders_form_no_cycle(package: str) -> None:
    files = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in modules(ROOT / package)}
    needs: dict[str, set[str]] = {}
    for name, path in files.items():
        targets = {_module(files, other) for other in imported(path)} - {""}
        needs.setdefault(name.rpartition(".")[0], set()).update(target.rpartition(".")[0] for target in targets)
    while done := [folder for folder, others in needs.items() if not (others - {folder}) & needs.keys()]:
        for folder in done:
            del needs[folder]
    assert sorted(needs) == []


FLOORS = {
    "apiserver": ("api", "replica storage", "authorization watch", "reads writes", "bootstrap custom", "http"),
}
"""Top folders of an actor from the lowest floor up."""


@pytest.mark.parametrize("actor", FLOORS)
def test_a_floor_never_imports_an_upper_one(actor: str) -> None:
    floor = {name: number for number, names in enumerate(FLOORS[actor]) for name in names.split()}
    upward = []
    for path in modules(ROOT / "actors" / actor):
        top = path.relative_to(ROOT / "actors" / actor).parts[0]
        targets = {name.split(".")[2] for name in imported(path) if name.startswith(f"actors.{actor}.")}
        if top in floor:
            upward += [f"{path}: {other}" for other in targets if floor.get(other, len(floor)) > floor[top]]
    assert upward == []


def _module(files: dict[str, Path], name: str) -> str:
    """`name` may be a module, or something inside one."""
    return name if name in files else name.rpartition(".")[0] if name.rpartition(".")[0] in files else ""


def test_folders_of_protocols_form_no_cycle() -> None:
    """The root counts as a folder, too: it holds the base classes of errors and imports nothing."""
    files = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in modules(ROOT / "protocols")}
    packages = {name.removesuffix(".__init__"): name for name in files if name.endswith(".__init__")}
    needs: dict[str, set[str]] = {}
    for name, path in files.items():
        targets = {_module(files, other) or packages.get(other.rpartition(".")[0], "") for other in imported(path)}
        folders = {target.rpartition(".")[0] for target in targets if target}
        needs.setdefault(name.rpartition(".")[0], set()).update(folders)
    while done := [folder for folder, others in needs.items() if not (others - {folder}) & needs.keys()]:
        for folder in done:
            del needs[folder]
    assert sorted(needs) == []
