"""Pages of docs/explanation that say which test covers what."""

import re
from pathlib import Path

REPO = Path(__file__).parents[2]


def page(name: str) -> str:
    return (REPO / "docs" / "explanation" / name).read_text()


def named(text: str) -> set[str]:
    """Tests that a page names."""
    return set(re.findall(r"`(test_\w+)`", text))


def written() -> set[str]:
    """Tests that there are."""
    files = (REPO / "tests").rglob("test_*.py")
    return {name for path in files for name in re.findall(r"def (test_\w+)\(", path.read_text())}
