"""A root for tests of the supervisor."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def root() -> Iterator[Path]:
    """A root with a path short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="np", dir="/tmp") as path:
        yield Path(path)
