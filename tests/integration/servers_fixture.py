"""Two servers on one store, ours and Debian's etcd, for the scenarios of KEP-1904."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.etcd_fixture import etcd_binary
from tests.support.apiserver_plane import running_plane
from tests.support.etcd_cluster import cluster
from tests.support.servers import GATE, Server
from tests.support.store_lab import lab, listened_at, until

Two = tuple[Server, Server]


@pytest.fixture(scope="module", params=["ours", "etcd"])
def store(request: pytest.FixtureRequest) -> Iterator[str]:
    """Target of a store; etcd tells progress each 250 ms."""
    if request.param == "etcd":
        with cluster(etcd_binary(), progress="250ms") as made:
            yield made.endpoints[0]
    else:
        with lab("store") as ours:
            until("the store listens", lambda: listened_at(ours.socket))
            yield ours.target


@pytest.fixture(scope="module")
def old_servers(store: str) -> Iterator[Two]:
    """With the gate off."""
    changes: dict[str, Any] = {"store_endpoints": (store,), "store_embedded": False, "feature_gates": {GATE: False}}
    with running_plane(**changes) as one, running_plane(one, **changes) as other:
        yield Server(one), Server(other)


@pytest.fixture(scope="module")
def servers(store: str) -> Iterator[Two]:
    """Two API servers on one store."""
    changes: dict[str, Any] = {"store_endpoints": (store,), "store_embedded": False}
    with running_plane(**changes) as one, running_plane(one, **changes) as other:
        yield Server(one), Server(other)
