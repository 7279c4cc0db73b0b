"""Links of the pages lead to files and headings that exist, and every page can be reached from the README."""

import re
from pathlib import Path

REPO = Path(__file__).parents[3]
PAGES = sorted([REPO / "README.md", REPO / "CONTRIBUTING.md", *(REPO / "docs").rglob("*.md")])
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def prose(page: Path) -> str:
    """Return a page without its code blocks, which contain no links and no headings."""
    return re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)


def targets(page: Path) -> list[tuple[Path, str]]:
    """Return the files and folders of this repository that a page links to, each with its anchor or an empty string."""
    links = [(file, anchor) for file, anchor in LINK.findall(prose(page)) if "://" not in file]
    return [((page.parent / file).resolve() if file else page, anchor) for file, anchor in links]


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub makes of a page's headings."""
    titles = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title) for title in HEADING.findall(prose(page)))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_links_lead_to_files_and_headings() -> None:
    missing = [
        f"{page.relative_to(REPO)}: {target}#{anchor}"
        for page in PAGES
        for target, anchor in targets(page)
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target))
    ]
    assert missing == []


def test_every_page_is_reachable_from_the_readme() -> None:
    found, pending = set(), [REPO / "README.md"]
    while pending:
        page = pending.pop()
        if page in found:
            continue
        found.add(page)
        if page.suffix == ".md":
            pending += [target for target, _ in targets(page)]
        elif page.is_dir():
            pending += sorted(page.glob("*.md"))
    assert [str(page.relative_to(REPO)) for page in PAGES if page not in found] == []


def test_table_of_the_readme_leads_to_every_how_to() -> None:
    rows = "\n".join(line for line in (REPO / "README.md").read_text().splitlines() if line.startswith("|"))
    linked = {(REPO / file).resolve() for file, _ in LINK.findall(rows)}
    assert [page.name for page in PAGES if page.parent.name == "how-to" and page not in linked] == []
