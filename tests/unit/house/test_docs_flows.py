"""The flows of docs/explanation/architecture.md name files, processes and streams that exist, in order."""

import re
from pathlib import Path

import pytest

REPO = Path(__file__).parents[3]
ARCHITECTURE = REPO / "docs" / "explanation" / "architecture.md"
FLOWS = {
    "An apply reaches a watcher": ["apiserver", "store", "watchcache", "apiserver"],
    "A container dies": ["runtime", "runtime", "cri", "pleg", "podworker"],
    "A device breaks": ["devices", "health", "podworker"],
    "A pod is scheduled with a claim": ["controllers", "scheduler", "podworker", "devices", "podworker"],
    "A patch taints a device": ["controllers", "podworker", "controllers"],
}
"""Title of each flow, and the actors whose files it passes, in order."""
STREAMS = {
    "An apply reaches a watcher": [],
    "A container dies": ["container-events", "pod-status", "pod-lifecycle"],
    "A device breaks": ["health", "allocations", "dra_health", "resource-status"],
    "A pod is scheduled with a claim": [],
    "A patch taints a device": [],
}
PATH = re.compile(r"\b(?:actors|protocols|supervisor|tests|examples|deploy|docs)/[\w./-]*\.\w+")
CODE = re.compile(r"`([^`\n]+)`")
PAGES = sorted([REPO / "README.md", REPO / "CONTRIBUTING.md", *(REPO / "docs").rglob("*.md")])


ADDED = ("protocols/kinds/cluster/node_maintenances.py",)
"""Files that a page shows how to add; tests/integration/test_example_kind.py does."""


def flow(title: str) -> str:
    """Return the picture below a title."""
    return ARCHITECTURE.read_text().split(f"\n## {title}\n", 1)[1].split("```", 2)[1]


def test_code_paths_of_pages_exist() -> None:
    quoted = [(page, path) for page in PAGES for path in PATH.findall(" ".join(CODE.findall(page.read_text())))]
    assert [
        (page, path) for page, path in quoted if "NAME" not in path and path not in ADDED and not (REPO / path).exists()
    ] == []


def test_paths_of_the_architecture_page_exist() -> None:
    paths = PATH.findall(ARCHITECTURE.read_text())
    assert len(paths) > 40
    assert [path for path in paths if not (REPO / path).exists()] == []


@pytest.mark.parametrize("title", FLOWS)
def test_flow_passes_its_actors_in_order(title: str) -> None:
    actors: list[str] = []
    for line in flow(title).splitlines():
        named = re.match(r" (\w+) .*?(?:actors/(\w+)|protocols)/", line)
        if named:
            assert named[1] in (named[2] or named[1], "shim"), line
            actors.append(named[2] or named[1])
    assert actors == FLOWS[title]


@pytest.mark.parametrize("title", FLOWS)
def test_flow_names_streams_of_the_messages(title: str) -> None:
    messages = " ".join(path.read_text() for path in (REPO / "protocols" / "messages").glob("*.py"))
    assert [name for name in STREAMS[title] if f'"{name}"' not in messages] == []
    hops = " ".join(line for line in flow(title).splitlines() if "stream" in line)
    assert [name for name in STREAMS[title] if not re.search(rf"\b{name}\b", hops)] == []
