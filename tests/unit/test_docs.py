"""What the pages point at exists, and every page can be found from the first one."""

import re
from pathlib import Path

import pytest

REPO = Path(__file__).parents[2]
PAGES = sorted([REPO / "README.md", *(REPO / "docs").rglob("*.md")])
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def targets(page: Path) -> list[Path]:
    """Files and folders of this repository that a page links to; code blocks hold no links."""
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    return [(page.parent / found).resolve() for found in LINK.findall(prose) if "://" not in found]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPO)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert [str(target) for target in targets(page) if not target.exists()] == []


def test_every_page_is_found_from_the_first() -> None:
    found, todo = set(), [REPO / "README.md"]
    while todo:
        page = todo.pop()
        if page in found:
            continue
        found.add(page)
        if page.suffix == ".md":
            todo += targets(page)
        elif page.is_dir():
            todo += sorted(page.glob("*.md"))
    assert [str(page.relative_to(REPO)) for page in PAGES if page not in found] == []
