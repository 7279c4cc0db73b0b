"""Several control planes compact one etcd in turns, as API servers do, and no watch loses its place by it."""

from collections.abc import Iterator

import pytest

from actors.watchcache.shell.compactor import KEY, Compactor
from protocols.etcd.client import EtcdClient
from protocols.etcd.errors import Compacted
from protocols.etcd.options import EtcdOptions
from tests.integration.etcd_fixture import etcd_binary
from tests.support.etcd_cluster import cluster


@pytest.fixture(scope="module")
def endpoints() -> Iterator[tuple[str, ...]]:
    """Endpoints of an etcd."""
    with cluster(etcd_binary()) as made:
        yield made.endpoints


async def test_one_of_two_compacts_and_keeps_an_interval(endpoints: tuple[str, ...]) -> None:
    client = EtcdClient(EtcdOptions(endpoints=endpoints))
    await client.start()
    first, other = Compactor(client, 300.0), Compactor(client, 300.0)
    try:
        assert [await first.once(), await other.once()] == [0, 0], "nobody compacts what he has not seen for a while"
        rounds = []
        for number in range(3):
            written = [await client.put(b"/registry/pods/ns/a", b"%d-%d" % (number, n)) for n in range(3)]
            rounds.append((await first.once(), await other.once(), written))
        assert all(bool(a) + bool(b) <= 1 for a, b, _ in rounds), "one of them at a time"
        compacted = max(max(a, b) for a, b, _ in rounds)
        assert rounds[0][2][-1] < compacted < rounds[2][2][0], "older than the round before last is gone"
        with pytest.raises(Compacted):
            await client.range(b"/registry/", revision=rounds[0][2][0])
        assert (await client.range(b"/registry/", revision=rounds[2][2][0])).kvs
        kept, _ = await client.get(KEY)
        assert kept is not None
        assert int(kept.value) == compacted
    finally:
        await client.close()
