"""KEP-1904 A14 and A6's edge: from etcd's answers, in any order and however stale their progress, to what a watch sees.

Real parts, no process: the watch cache's state, the replica, an open watch.
"""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.apiserver.api.encoding.negotiate import PLAIN
from actors.apiserver.api.errors import Expired
from actors.apiserver.api.request.query import ListOptions
from actors.apiserver.api.request.selection import selection
from actors.apiserver.replica.replica import Replica
from actors.apiserver.table import TABLE
from actors.apiserver.watch.begin import open_watch
from actors.apiserver.watch.hub import Hub, HubOptions
from actors.apiserver.watch.scope import Scope
from actors.watchcache.cache.options import WatchcacheOptions
from actors.watchcache.cache.resource_cache import ResourceCache, op_of
from actors.watchcache.cache.store_state import StoreState
from actors.watchcache.cache.window import WindowOptions
from protocols.bus import Event
from protocols.etcd.options import EtcdOptions
from protocols.etcd.types import KeyValue, WatchBatch, WatchEvent
from tests.support.watch_wire import ByHand, Wire

ROW = TABLE.of("configmaps")
PREFIX = b"/registry/configmaps/ns/"
# (what, how far): a write of X, a write of Y, progress that is ahead or behind, a bookmark to the watch
STEPS = st.lists(
    st.tuples(st.sampled_from(["x", "y", "progress", "stale", "bookmark"]), st.integers(0, 5)), max_size=40
)


def body(name: str, number: int) -> bytes:
    metadata = {"name": name, "namespace": "ns", "generation": number}
    return msgspec.json.encode({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata})


class Chain:
    def __init__(self, efficient_resumption: bool) -> None:
        options = WatchcacheOptions(
            etcd=EtcdOptions(endpoints=("unix:/none",)), efficient_resumption=efficient_resumption
        )
        self.state = StoreState(options)
        self.revision = 10
        first = KeyValue(PREFIX + b"a", body("a", 0), 5, 5, 1)
        self.state.load([first], self.revision)
        self.state.take(WatchBatch(self.revision, []), 0.0)
        self.cache = cache_of(self.state)
        self.replica = Replica(ROW)
        self.replica.on_snapshot([(i.key, i.value) for i in self.cache.snapshot()], self.cache.position)  # type: ignore[misc]
        self.hub = Hub(self.replica, HubOptions(flusher=ByHand()))
        self.last = first

    def write(self, x: bool, ahead: int) -> None:
        self.revision += 1 + ahead
        if x:
            old = self.last
            now = KeyValue(old.key, body("a", self.revision), old.create_revision, self.revision, old.version + 1)
            self.last, event = now, WatchEvent(False, now, old)
        else:
            event = WatchEvent(False, KeyValue(b"/registry/secrets/ns/y", b"{}", self.revision, self.revision, 1), None)
        self.take(WatchBatch(self.revision, [event]))

    def take(self, batch: WatchBatch) -> None:
        """As the streams tell it on the bus."""
        before = self.cache.position
        for change in self.state.take(batch, 0.0):
            if change.cache is self.cache:
                self.replica.on_event(Event(op_of(change.event), change.key, change.event, mark=change.event.rv))
        self.replica.on_mark(self.cache.position)
        assert self.cache.position >= before
        assert self.replica.mark == self.cache.position


def cache_of(state: StoreState) -> ResourceCache:
    return next(cache for cache in state.caches if cache.resource.plural == "configmaps")


@pytest.mark.scenario("A14")
@settings(deadline=None)
@given(STEPS, st.booleans())
def test_versions_never_fall(steps: list[tuple[str, int]], efficient_resumption: bool) -> None:
    chain = Chain(efficient_resumption)
    options = ListOptions(watch=True, bookmarks=True, version=chain.replica.mark)
    wire = Wire(open_watch(chain.hub, Scope("", selection(ROW, "", ""), PLAIN), options))
    written = []
    for what, number in steps:
        if what == "bookmark":
            chain.hub.bookmark(wire.watcher)
        elif what in ("progress", "stale"):
            reached = chain.revision + number if what == "progress" else max(1, chain.revision - number - 1)
            chain.revision = max(chain.revision, reached)
            chain.take(WatchBatch(reached, []))
        else:
            chain.write(what == "x", number)
            written += [chain.revision] if what == "x" else []
    seen = events(wire)
    assert [rv for _, rv in seen] == sorted({rv for _, rv in seen}), "each is newer than the one before"
    assert [rv for kind, rv in seen if kind != "BOOKMARK"] == written
    if not efficient_resumption:
        assert all(rv in {10, *written} for _, rv in seen), "the gate being off, only X moves X"


def events(wire: Wire) -> list[tuple[str, int]]:
    told = [msgspec.json.decode(line) for line in wire.take().splitlines()]
    return [(event["type"], int(event["object"]["metadata"]["resourceVersion"])) for event in told]


@pytest.mark.scenario("A6")
def test_progress_evicts_nothing_and_the_oldest_version_is_exact() -> None:
    state = StoreState(
        WatchcacheOptions(
            etcd=EtcdOptions(endpoints=("unix:/none",)), window=WindowOptions(min_capacity=2, max_capacity=2)
        )
    )
    state.load([], 50)
    state.take(WatchBatch(50, []), 0.0)
    cache = cache_of(state)
    for revision in (80, 85, 90, 95):
        kv = KeyValue(PREFIX + b"%d" % revision, body("a", 1), revision, revision, 1)
        state.take(WatchBatch(revision, [WatchEvent(False, kv, None)]), 0.0)
    state.take(WatchBatch(140, []), 0.0)
    replica = Replica(ROW)
    replica.on_snapshot([(i.key, i.value) for i in cache.snapshot()], cache.position)  # type: ignore[misc]
    assert replica.mark == 140
    assert [change.rv for change in replica.window.since(90)] == [95]
    hub = Hub(replica, HubOptions(flusher=ByHand()))
    scope = Scope("", selection(ROW, "", ""), PLAIN)
    oldest = cache.window.floor
    open_watch(hub, scope, ListOptions(watch=True, version=oldest))
    with pytest.raises(Expired, match=rf"too old resource version: {oldest - 1} \({oldest}\)"):
        open_watch(hub, scope, ListOptions(watch=True, version=oldest - 1))
