"""Debian's etcd beside our store: the same test runs against both, and against the store's second door."""

from collections.abc import Iterator

import pytest

from tests.support.engine import etcd_binary
from tests.support.store_lab import etcd_process, lab, listened_at, until

__all__ = ["backend", "etcd_binary"]


@pytest.fixture(scope="session", params=["ours", "door", "etcd"])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """gRPC target of a running server, shared by the tests of a session: each uses keys of its own."""
    if request.param == "etcd":
        with etcd_process(etcd_binary()) as target:
            yield target
    else:
        with lab("store") as ours:
            until("the store listens", lambda: listened_at(ours.socket))
            yield ours.door if request.param == "door" else ours.target
