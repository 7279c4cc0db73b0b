"""The kind that CONTRIBUTING.md adds: the page's own blocks, in a copy of the tree, and what kubectl says then."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.plane import REPO, Plane

PAGE = REPO / "CONTRIBUTING.md"
FACTS, ROW, KIND, SERVED = (
    "protocols/kinds/facts/node.v1.txt",
    "protocols/kinds/table.py",
    "protocols/kinds/cluster/node_maintenances.py",
    "actors/apiserver/table.py",
)
FANS = """
apiVersion: node.k8s.io/v1
kind: NodeMaintenance
metadata: {name: fans}
spec: {nodeName: worker-1, reason: noise}
"""


def block_after(path: str) -> str:
    """Return the first block after the path's name in the page's section."""
    section = PAGE.read_text().partition("## A kind")[2]
    found = re.search(r"```\w*\n(.*?)```", section[section.index(f"`{path}`") :], re.DOTALL)
    assert found, path
    return found[1]


def replace(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    path.write_text(text)


def before(text: str, mark: str, block: str) -> str:
    assert text.count(mark) == 1, mark
    return text.replace(mark, block + mark)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("tree")
    for folder in ("protocols", "actors", "supervisor"):
        shutil.copytree(REPO / folder, copy / folder)
    facts, row, served = copy / FACTS, copy / ROW, copy / SERVED
    replace(facts, facts.read_text() + block_after(FACTS))
    replace(row, before(row.read_text(), "\nALL = ", block_after(ROW)))
    replace(copy / KIND, block_after(KIND))
    wired = before(served.read_text(), "        definitions.DEFINITIONS,\n", block_after(SERVED))
    replace(served, before(wired, "\nTABLE", "\nfrom protocols.kinds.cluster import node_maintenances\n"))
    return copy


@pytest.fixture(scope="module")
def plane(tree: Path) -> Iterator[Plane]:
    made = Plane()
    made.environment |= {"PYTHONPATH": str(tree)}
    with made as plane:
        yield plane


def test_the_facts_are_in_the_form_that_lint_asks_for(tree: Path) -> None:
    code = "from protocols.kinds.generate import fresh_text; print(fresh_text('node.v1', None), end='')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        check=True,
    )
    assert done.stdout == (tree / FACTS).read_bytes()


def test_the_example_kind_is_a_kind_like_any_other(plane: Plane) -> None:
    assert plane.kubectl("apply", "-f", "-", stdin=FANS) == "nodemaintenance.node.k8s.io/fans created\n"
    shown = plane.kubectl("get", "nm", "--field-selector", "spec.nodeName=worker-1").splitlines()
    assert [line.split()[:2] for line in shown] == [["NAME", "NODE"], ["fans", "worker-1"]]
    assert plane.kubectl("get", "nm", "fans", "-o", "jsonpath={.spec.severity}") == "1"
    assert "severity\t<integer>" in plane.kubectl("explain", "nm.spec")
    with pytest.raises(AssertionError, match=r"spec\.severity: Invalid value: 7: must be between 1 and 3, inclusive"):
        plane.kubectl("patch", "nm", "fans", "--type", "merge", "-p", '{"spec":{"severity":7}}')
    with pytest.raises(AssertionError, match=r'nodeName: Invalid value: "n2": field is immutable'):
        plane.kubectl("patch", "nm", "fans", "--type", "merge", "-p", '{"spec":{"nodeName":"n2"}}')
