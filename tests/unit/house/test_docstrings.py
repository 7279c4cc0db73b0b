"""Every public class and function says what its name and types do not."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDERS = ("protocols", "supervisor", "actors")
COPIED = "supervisor/begin/templates/"
"""Projects that are copied out of the tree."""
KNOWN = {"main", "add_parser"}
"""Entry points of a process, which its module explains, and of a command's module, see supervisor/cli/commands.py."""


def bare(path: Path) -> Iterator[str]:
    """Yield the public classes and functions of a module that lack a docstring."""
    for node in ast.parse(path.read_text()).body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if not node.name.startswith("_") and node.name not in KNOWN and not ast.get_docstring(node):
            yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"


@pytest.mark.parametrize("folder", FOLDERS)
def test_public_names_have_a_docstring_or_are_private(folder: str) -> None:
    paths = (path for path in sorted((ROOT / folder).rglob("*.py")) if "_pb2" not in path.name)
    own = (path for path in paths if not str(path.relative_to(ROOT)).startswith(COPIED))
    assert [name for path in own for name in bare(path)] == []
