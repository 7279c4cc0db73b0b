"""Each test runs on both loops: the product's, and the one that knows no TLS of its own that is any faster."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import uvloop

from tests.support.store_lab import short_directory
from tests.support.tls_wire import write_pki


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="module")
def pki() -> Iterator[Path]:
    with short_directory() as made:
        yield write_pki(made)
