"""What CONTRIBUTING.md names in the tree exists: files, and `FILE:NAME` of a class, function or constant."""

import re
from pathlib import Path

import pytest

from tests.unit.house.test_docs_flows import ADDED

REPO = Path(__file__).parents[3]
TEXT = re.sub(r"```.*?```", "", (REPO / "CONTRIBUTING.md").read_text(), flags=re.DOTALL)
NAMED = re.compile(r"`((?:actors|protocols|supervisor|deploy|examples|tests)/[\w/.-]+)(?::(\w+))?`")
FOUND = sorted(
    {(path, name) for path, name in NAMED.findall(TEXT) if path not in ADDED and not re.search("[A-Z]{4}", path)}
)


@pytest.mark.parametrize("path", sorted({path for path, _ in FOUND}))
def test_named_file_exists(path: str) -> None:
    assert (REPO / path).exists()


@pytest.mark.parametrize(("path", "name"), [each for each in FOUND if each[1]])
def test_named_symbol_is_defined(path: str, name: str) -> None:
    defined = rf"^\s*(async def|def|class) {name}\b|^{name}(:.*)? ="
    assert re.search(defined, (REPO / path).read_text(), re.MULTILINE)


def test_names_are_found() -> None:
    assert len([name for _, name in FOUND if name]) > 10
