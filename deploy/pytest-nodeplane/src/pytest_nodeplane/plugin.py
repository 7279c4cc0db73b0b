"""The pytest plugin: fixtures `plane` and `node`, and what a failed test reports.

pytest loads it in every run of a project that has it installed, so everything else is imported by the fixtures.
"""

from collections.abc import Generator, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_nodeplane.node import Node
    from pytest_nodeplane.plane import Plane

NODES: "pytest.StashKey[list[Node]]" = pytest.StashKey()
"""Nodes of a test, where its report finds them also when a fixture of the project failed."""


@pytest.fixture(scope="session")
def plane(pytestconfig: pytest.Config) -> "Iterator[Plane]":
    """A plane on free ports below a temporary root; under pytest-xdist each worker has its own."""
    from pytest_nodeplane.plane import Plane
    from pytest_nodeplane.settings import settings_of

    made = Plane(settings_of(pytestconfig.rootpath).words())
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture
def node(plane: "Plane", request: pytest.FixtureRequest) -> "Iterator[Node]":
    """The first node of the plane, with a namespace and devices of the test's own."""
    from pytest_nodeplane.node import Node

    made = Node(plane)
    request.node.stash[NODES] = [made]
    try:
        made.begin()
        yield made
    finally:
        made.end()


@pytest.fixture
def nodes(plane: "Plane", node: "Node", request: pytest.FixtureRequest) -> "Iterator[list[Node]]":
    """Every node of the plane, as many as `[tool.nodeplane]` says; they share the namespace of `node`, the first."""
    from pytest_nodeplane.node import Node

    made = request.node.stash[NODES]
    with ExitStack() as stack:
        for each in plane.further:
            made.append(Node(each, node.namespace))
            stack.callback(made[-1].end)
            made[-1].begin()
        yield list(made)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Add status, devices, events, calls and logs of the plane to the report of a test whose set-up or call failed."""
    report = yield
    used = item.stash.get(NODES, [])
    if used and report.failed and report.when != "teardown":  # then the namespace is empty
        from pytest_nodeplane.report import sections

        report.sections += [section for each in used for section in sections(each, first=each is used[0])]
    return report
