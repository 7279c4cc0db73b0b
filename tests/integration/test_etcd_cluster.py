"""A control plane on three members of Debian's etcd, TLS and client certificates: members die, no watch notices."""

import asyncio
import shutil
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from protocols.etcd.client import EtcdClient
from protocols.etcd.errors import Unavailable
from protocols.etcd.options import EtcdOptions
from protocols.etcd.watch import Watch
from tests.integration.etcd_fixture import etcd_binary
from tests.support.apiserver_plane import Plane, running_plane
from tests.support.authority import Authority
from tests.support.etcd_cluster import Cluster, cluster
from tests.support.resuming import CONFIGMAPS, Churn, Crowd, judge, stored
from tests.support.store_lab import short_directory

WATCHES = 20


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    """An etcd of three members with TLS."""
    with cluster(etcd_binary(), members=3, tls=True) as made:
        yield made


@pytest.fixture(scope="module")
def plane(three: Cluster) -> Iterator[Plane]:
    """An API server on the etcd of three members."""
    changes: dict[str, Any] = {"store_endpoints": three.endpoints, "store_embedded": False, "etcd_files": three.files}
    with running_plane(**changes) as started:
        yield started


async def test_members_killed_one_after_the_other(plane: Plane, three: Cluster) -> None:
    before = set(await stored(plane))
    async with Crowd([plane], WATCHES) as crowd:
        async with Churn([plane], "one") as churn:
            await churn.at_least(5)
            for member in range(3):
                three.kill(member)
                await churn.at_least(5)
                three.start(member)
                await asyncio.to_thread(three.wait)
                await churn.at_least(2)
        unknown = [text for text in churn.refused if "whether the write took effect is not known" in text]
        assert churn.refused == unknown, "as kube-apiserver, only a write that was under way at a death"
        assert len(unknown) <= 3
        await judge(plane, crowd, churn, before)
        assert all(client.opened == 1 for client in crowd.clients), "no stream even broke"


async def test_a_cluster_that_is_away_and_comes_back(plane: Plane, three: Cluster) -> None:
    before, victims = set(await stored(plane)), (0, 1)
    async with Crowd([plane], WATCHES) as crowd:
        async with Churn([plane], "away") as churn, plane.client() as session:
            await churn.at_least(3)
            three.kill(*victims)
            async with session.get(f"{CONFIGMAPS}?resourceVersion=0") as answer:
                assert answer.status == 200, "what any version will do for is still served"
            await asyncio.sleep(0.5)
            three.start(*victims)
            await asyncio.to_thread(three.wait)
            await churn.at_least(5)
        await judge(plane, crowd, churn, before)
        assert all(client.opened == 1 for client in crowd.clients)


async def until_it_breaks(watch: Watch) -> None:
    async for _ in watch:
        pass


async def test_a_member_that_hangs_does_not_keep_a_watch_silent(three: Cluster) -> None:
    """It still takes what the kernel takes for it: only unanswered pings tell."""

    client = EtcdClient(three.options(members=1))
    await client.start()
    try:
        async with client.watch(b"/registry/") as watch:
            await client.put(b"/registry/hangs", b"1")
            assert (await anext(watch)).events
            three.signal(0, signal.SIGSTOP)
            with pytest.raises(Unavailable):
                await asyncio.wait_for(until_it_breaks(watch), 60)
    finally:
        three.signal(0, signal.SIGCONT)
        await client.close()


@pytest.mark.parametrize("count", [1, 3])
async def test_a_client_connects_with_the_certificate_of_now(three: Cluster, count: int) -> None:
    """It starts with one that no member takes; the right one comes while it runs."""

    with short_directory() as directory:
        stranger = Authority(directory / "stranger")
        stranger.issue("np", "nodeplane")
        ca, cert, key = (directory / name for name in ("ca.crt", "np.crt", "np.key"))
        for path in (cert, key):
            shutil.copyfile(directory / "stranger" / path.name, path)
        shutil.copyfile(three.files.ca, ca)
        client = EtcdClient(EtcdOptions(endpoints=three.endpoints[:count], ca=ca, cert=cert, key=key))
        await client.start()
        try:
            with pytest.raises(Unavailable):
                await client.current_revision(timeout=1.0)
            shutil.copyfile(three.files.cert, cert)
            shutil.copyfile(three.files.key, key)
            assert await client.current_revision(timeout=60.0) > 0
        finally:
            await client.close()
