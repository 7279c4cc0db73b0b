"""Every public class and function of a finished folder says what its name and types do not."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DONE = (
    "protocols",
    "supervisor",
    "actors/adopt",
    "actors/apiserver",
    "actors/cel",
    "actors/controllers",
    "actors/cri",
    "actors/frontdoor",
    "actors/otlp",
    "actors/pleg",
    "actors/recorder",
    "actors/runtime",
    "actors/scheduler",
    "actors/simulator",
    "actors/store",
    "actors/watchcache",
)
"""Folders that are held to the rule; those of other actors are to follow."""
OTHERS = ("protocols/lifecycle/", "supervisor/begin/templates/")
"""Below them: modules that still arrive from other folders, and projects that are copied out of the tree."""
KNOWN = {"main", "add_parser"}
"""Entry points of a process, which its module explains, and of a command's module, see supervisor/cli/commands.py."""


def bare(path: Path) -> Iterator[str]:
    """Yield the public classes and functions of a module that lack a docstring."""
    for node in ast.parse(path.read_text()).body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if not node.name.startswith("_") and node.name not in KNOWN and not ast.get_docstring(node):
            yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"


@pytest.mark.parametrize("folder", DONE)
def test_public_names_have_a_docstring_or_are_private(folder: str) -> None:
    paths = (path for path in sorted((ROOT / folder).rglob("*.py")) if "_pb2" not in path.name)
    own = (path for path in paths if not str(path.relative_to(ROOT)).startswith(OTHERS))
    assert [name for path in own for name in bare(path)] == []
