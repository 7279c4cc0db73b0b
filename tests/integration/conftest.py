"""The plane of files that need no other: a store, a watch cache and an API server."""

from collections.abc import Iterator

import pytest

from tests.support.apiserver_plane import Plane, running_plane


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """An API server with its store, for the tests of one file."""
    with running_plane() as started:
        yield started
