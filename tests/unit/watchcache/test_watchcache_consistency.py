"""What is cached against what is stored: equal, different, or not to be asked; in pages."""

import asyncio

import pytest

from actors.watchcache.cache.options import WatchcacheOptions
from actors.watchcache.cache.store_state import StoreState
from actors.watchcache.shell import consistency_check as consistency
from actors.watchcache.shell.consistency_check import ERROR, FAILURE, SUCCESS, ConsistencyCheck
from protocols.etcd.errors import EtcdError
from protocols.etcd.options import EtcdOptions
from protocols.etcd.types import KeyValue, Ranged
from protocols.wire import etcd_pb2 as pb

OPTIONS = WatchcacheOptions(etcd=EtcdOptions(endpoints=("unix:/none",)), resume_revisions=0)
PODS = b"/registry/pods/"


class Store:
    def __init__(self, count: int) -> None:
        self.kvs = [KeyValue(PODS + b"ns/p%03d" % n, b"{}", n + 1, n + 1, 1) for n in range(count)]
        self.asked: list[int] = []
        self.away = False

    async def ranged(self, request: pb.RangeRequest, timeout: float | None = None) -> Ranged:
        if self.away:
            raise EtcdError("away")
        assert request.keys_only
        self.asked.append(request.revision)
        found = [kv for kv in self.kvs if request.key <= kv.key < request.range_end]
        return Ranged(found[: request.limit], len(found) > request.limit, len(found), 99)


def outcome(store: Store, spoil: bool = False) -> tuple[str, dict[str, int]]:
    state = StoreState(OPTIONS)
    state.load(store.kvs, 50)
    cache = next(cache for cache in state.caches if cache.resource.plural == "pods")
    if spoil:
        cache.objects.popitem()
    outcome = asyncio.run(ConsistencyCheck(store, state, 300.0).check(cache))
    return outcome, dict(cache.checks)


def test_check_equal_cache_reads_pages_at_its_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consistency, "PAGE", 10)
    store = Store(25)
    assert outcome(store) == (SUCCESS, {SUCCESS: 1})
    assert store.asked == [50, 50, 50]


def test_check_missing_object_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    assert outcome(Store(3), spoil=True) == (FAILURE, {FAILURE: 1})
    assert "resource=pods differing=1 revision=50 first=ns/p002" in caplog.text


def test_check_store_away_is_an_error() -> None:
    store = Store(2)
    store.away = True
    assert outcome(store) == (ERROR, {ERROR: 1})


def test_check_keys_that_name_no_object_are_no_difference() -> None:
    """Nothing but a restart of the watch cache would follow, again and again."""
    store = Store(2)
    store.kvs = [KeyValue(PODS, b"x", 9, 9, 1), KeyValue(PODS + b"@floor", b"x", 8, 8, 1), *store.kvs]
    assert outcome(store) == (SUCCESS, {SUCCESS: 1})
