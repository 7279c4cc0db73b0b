"""Custom resources in the watch cache: their definitions, as they come and go, decide which streams there are."""

import asyncio
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.watchcache.cache.resource_cache import ResourceCache
from actors.watchcache.cache.store_state import StoreState
from actors.watchcache.shell.consistency_check import ConsistencyCheck
from protocols.etcd.types import Ranged
from protocols.kinds.table import DEFINITIONS
from protocols.kube.custom import declared, served
from protocols.wire import etcd_pb2 as pb
from tests.unit.watchcache.test_watchcache_state import Etcd, started

NAMES = ("as", "bs")


def definition(plural: str, established: bool = True) -> dict[str, object]:
    return {
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": plural, "kind": plural.upper()},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True}, {"name": "v2", "served": True, "storage": True}],
        },
        "status": {"conditions": [{"type": "Established", "status": "True" if established else "False"}]},
    }


def key_of(plural: str) -> bytes:
    return f"{DEFINITIONS.storage_prefix}{plural}.example.com".encode()


def define(etcd: Etcd, plural: str) -> None:
    etcd.put(key_of(plural), json.dumps(definition(plural)).encode())


def objects(etcd: Etcd, plural: str) -> dict[str, int]:
    prefix = f"/registry/example.com/{plural}/"
    return {
        key.decode().removeprefix(prefix): kv.mod_revision
        for key, kv in etcd.now.items()
        if key.startswith(prefix.encode())
    }


def custom(state: StoreState) -> dict[str, ResourceCache]:
    return {cache.resource.plural: cache for cache in state.caches if cache.resource.group == "example.com"}


def held(state: StoreState) -> dict[str, dict[str, int]]:
    return {plural: {key: each.rv for key, each in c.objects.items()} for plural, c in custom(state).items()}


def model(etcd: Etcd) -> dict[str, dict[str, int]]:
    return {plural: objects(etcd, plural) for plural in NAMES if key_of(plural) in etcd.now}


STEPS = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(("define", "undefine", "put", "drop"))), max_size=24)


def play(etcd: Etcd, steps: list[tuple[str, str]]) -> None:
    for plural, step in steps:
        key = f"/registry/example.com/{plural}/ns/x".encode()
        if step == "define":
            define(etcd, plural)
        elif step == "undefine":
            etcd.delete(key_of(plural))
        elif step == "put":
            etcd.put(key, b'{"r":%d}' % etcd.revision)
        else:
            etcd.delete(key)


@settings(deadline=None)
@given(STEPS, STEPS, STEPS)
def test_definition_has_cache_of_stored_objects(
    first: list[tuple[str, str]], second: list[tuple[str, str]], third: list[tuple[str, str]]
) -> None:
    """By a list, by a watch in one batch or many, and by a list after compaction."""
    etcd = Etcd()
    play(etcd, first)
    state = started(etcd)
    state.take(etcd.since(state.position), 0.0)
    assert held(state) == model(etcd)
    for step in second:
        play(etcd, [step])
        state.take(etcd.since(state.position), 0.0)
        assert held(state) == model(etcd)
    play(etcd, third)
    state.take(etcd.since(state.position), 0.0)
    assert held(state) == model(etcd)
    play(etcd, first)
    state.replace(list(etcd.now.values()), etcd.revision)
    assert held(state) == model(etcd)


def test_definition_new_begins_history() -> None:
    etcd = Etcd()
    state = started(etcd)
    state.take(etcd.since(0), 0.0)
    define(etcd, "as")
    begins = etcd.revision
    etcd.put(b"/registry/example.com/as/ns/x", b"{}")
    state.take(etcd.since(state.position), 0.0)
    cache = custom(state)["as"]
    assert cache.resource.version == "v2"
    assert [event.mark for event in cache.since(begins) or ()] == [begins + 1]
    assert cache.since(begins - 1) is None


def test_definition_changed_keeps_cache() -> None:
    etcd = Etcd()
    define(etcd, "as")
    state = started(etcd)
    before = custom(state)["as"]
    state.take(etcd.since(0), 0.0)
    define(etcd, "as")
    state.take(etcd.since(state.position), 0.0)
    assert custom(state)["as"] is before


def test_definition_nonsense_key_is_ignored() -> None:
    etcd = Etcd()
    etcd.put(key_of("as"), b"no json")
    etcd.put(key_of("bs"), json.dumps(definition("as")).encode())
    state = started(etcd)
    assert custom(state) == {}


def test_definition_declares_served_versions() -> None:
    made = definition("as")
    resource = declared(made)
    assert resource is not None
    assert (resource.storage_prefix, resource.version) == ("/registry/example.com/as/", "v2")
    assert served(made) == resource
    assert served(definition("as", established=False)) is None
    assert declared({"spec": {"group": "nodots", "names": {"plural": "x", "kind": "X"}}}) is None
    assert declared({}) is None


class Redefining:
    """A store in which a definition goes and comes back while the first resource is compared."""

    def __init__(self, etcd: Etcd, state: StoreState) -> None:
        self.etcd, self.state, self.done = etcd, state, False

    async def ranged(self, request: pb.RangeRequest, timeout: float | None = None) -> Ranged:
        if not self.done:
            self.done = True
            play(self.etcd, [("as", "undefine"), ("as", "define"), ("as", "put")])
            self.state.take(self.etcd.since(self.state.position), 0.0)
        kvs = [kv for key, kv in sorted(self.etcd.now.items()) if request.key <= key < request.range_end]
        return Ranged(kvs, False, len(kvs), self.etcd.revision)


async def test_definition_that_went_meanwhile_is_not_compared() -> None:
    """Its former cache is not what the store holds: the watch cache restarted."""
    etcd = Etcd()
    define(etcd, "as")
    state = started(etcd)
    state.take(etcd.since(0), 0.0)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await ConsistencyCheck(Redefining(etcd, state), state, 0.0).run()
    assert custom(state)["as"].checks["success"]
