"""Fixtures of several test files, which give them a name of their own: `plane = whole_plane`."""

from collections.abc import Iterator

import pytest

from tests.support.apiserver_plane import Plane as ApiserverPlane
from tests.support.apiserver_plane import running_plane
from tests.support.engine import engines
from tests.support.plane import Plane
from tests.support.witnesses import with_devices


@pytest.fixture(scope="module")
def whole_plane() -> Iterator[Plane]:
    """A plane with all its actors, for the tests of one file."""
    with Plane() as plane:
        yield plane


@pytest.fixture(scope="module")
def plane_that_settles() -> Iterator[Plane]:
    """A plane whose replicas agree in the end."""
    with Plane() as plane:
        yield plane
        plane.settled()


@pytest.fixture(scope="module")
def plane_with_devices() -> Iterator[Plane]:
    """A plane with a device plugin, whose replicas agree in the end."""
    with Plane() as plane:
        yield with_devices(plane)
        plane.settled()


@pytest.fixture(scope="module", params=engines())
def apiserver_on_each_store(request: pytest.FixtureRequest) -> Iterator[ApiserverPlane]:
    """An API server with its store, for each kind of store."""
    with running_plane(store=request.param) as plane:
        yield plane
