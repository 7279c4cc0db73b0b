"""What many files start: a store, a watch cache and an API server, or a runtime."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.support.apiserver_plane import Plane, running_plane
from tests.support.runtime import RuntimeProcess


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """An API server with its store, for the tests of one file."""
    with running_plane() as started:
        yield started


@pytest.fixture
async def runtime() -> AsyncIterator[RuntimeProcess]:
    """A runtime of one test."""
    async with RuntimeProcess() as started:
        yield started
