"""The pytest plugin: fixtures `plane` and `node`, and what a failed test reports.

pytest loads it in every run of a project that has it installed, so everything else is imported by the fixtures.
"""

from collections.abc import Generator, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_nodeplane.conforming import Conform, Stages
    from pytest_nodeplane.killing import Counting, Killing
    from pytest_nodeplane.node import Node
    from pytest_nodeplane.plane import Plane

NODES: "pytest.StashKey[list[Node]]" = pytest.StashKey()
"""Nodes of a test, where its report finds them also when a fixture of the project failed."""


STEPPING: "pytest.StashKey[Counting | Killing]" = pytest.StashKey()
"""What runs beside an item of a test with the mark."""
EVERY_STEP = "kill_at_every_step"
CONFORM = "conform"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("nodeplane")
    group.addoption("--nodeplane-step", type=int, default=0, metavar="N", help=f"{EVERY_STEP}: kill at this step only")
    group.addoption(
        "--nodeplane-seed", type=int, default=0, metavar="N", help=f"{EVERY_STEP}: chooses among too many kills"
    )


def pytest_configure(config: pytest.Config) -> None:
    text = "run the test again with one actor or program killed at each of its steps"
    config.addinivalue_line("markers", f'{EVERY_STEP}(victims=("program", "actor"), limit=30): {text}')
    text = "one item for each behaviour of `nodeplane conform`, judged by calling the fixture conform with the program"
    config.addinivalue_line(
        "markers", f'{CONFORM}(kind="plugin", only=(), behaviours=(), timeout=10, profile=""): {text}'
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if mark := metafunc.definition.get_closest_marker(CONFORM):
        from pytest_nodeplane.conforming import parametrize

        parametrize(metafunc, mark)


def pytest_collection_finish(session: pytest.Session) -> None:
    marked = [item for item in session.items if item.get_closest_marker(EVERY_STEP)]
    if marked:
        from pytest_nodeplane.every_step import options_of

        for item in marked:
            options_of(item)


def pytest_sessionstart(session: pytest.Session) -> None:
    from pytest_nodeplane.step_reports import StepReports

    session.config.pluginmanager.register(StepReports(session))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a test with the mark together with its kills."""
    if not isinstance(item, pytest.Function) or not item.get_closest_marker(EVERY_STEP):
        return None
    from pytest_nodeplane.every_step import run

    run(item, nextitem)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    return (yield from _beside(item, ends=False))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    return (yield from _beside(item, ends=True))


def _beside(item: pytest.Item, ends: bool) -> Generator[None, Any, Any]:
    """End the kill of a marked test after its function, or after a set-up that fails; say in errors what was killed."""
    stepping = item.stash.get(STEPPING, None)
    try:
        result = yield
    except BaseException as error:
        if stepping:
            stepping.failed(error)
        raise
    if stepping and ends:
        stepping.passed()
    return result


@pytest.fixture(scope="session")
def plane(pytestconfig: pytest.Config) -> "Iterator[Plane]":
    """A plane on free ports below a temporary root; under pytest-xdist each worker has its own."""
    from pytest_nodeplane.plane import Plane
    from pytest_nodeplane.settings import settings_of

    session_plane = Plane(settings_of(pytestconfig.rootpath).words())
    try:
        session_plane.start()
        yield session_plane
    finally:
        session_plane.stop()


@pytest.fixture
def node(plane: "Plane", request: pytest.FixtureRequest) -> "Iterator[Node]":
    """The first node of the plane, with a namespace and devices of the test's own."""
    from pytest_nodeplane.node import Node

    test_node = Node(plane)
    request.node.stash[NODES] = [test_node]
    try:
        test_node.begin()
        if stepping := request.node.stash.get(STEPPING, None):
            stepping.begin(request.node.stash[NODES])
        yield test_node
    finally:
        test_node.end()


@pytest.fixture
def nodes(plane: "Plane", node: "Node", request: pytest.FixtureRequest) -> "Iterator[list[Node]]":
    """Every node of the plane, as many as `[tool.nodeplane]` says; they share the namespace of `node`, the first."""
    from pytest_nodeplane.node import Node

    all_nodes = request.node.stash[NODES]
    with ExitStack() as stack:
        for other in plane.further:
            all_nodes.append(Node(other, node.namespace))
            stack.callback(all_nodes[-1].end)
            all_nodes[-1].begin()
        yield list(all_nodes)


@pytest.fixture(scope="session")
def conform_stages() -> "Iterator[Stages]":
    """What the items of the mark conform share: the program that is judged."""
    from pytest_nodeplane.conforming import Stages

    stages = Stages()
    try:
        yield stages
    finally:
        stages.close()


@pytest.fixture
def conform(request: pytest.FixtureRequest, conform_stages: "Stages") -> "Conform":
    """Judge one behaviour of a program; for tests with the mark conform."""
    from pytest_nodeplane.conforming import Conform

    if not hasattr(request, "param"):
        raise pytest.UsageError(f"{request.node.name} calls the fixture conform: it needs the mark conform")
    return Conform(conform_stages, *request.param)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Add status, devices, events, calls and logs of the plane to the report of a test whose set-up or call failed."""
    report = yield
    used = item.stash.get(NODES, [])
    if used and report.failed and report.when != "teardown":  # then the namespace is empty
        from pytest_nodeplane.report import sections

        report.sections += [section for each in used for section in sections(each, first=each is used[0])]
    return report
