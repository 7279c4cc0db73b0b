"""On a cluster of Debian's etcd, three members with TLS on this machine: writes, and what a dead member costs."""

import asyncio
import itertools
import shutil
import time
from collections.abc import Awaitable, Callable

from protocols.etcd import EtcdClient
from tests.bench.row import Row, at_most
from tests.bench.watch_lab import configmap
from tests.support.apiserver_plane import Plane, running_plane
from tests.support.etcd_cluster import Cluster, cluster
from tests.support.resuming import CONFIGMAPS, Churn, Crowd

WRITERS, SECONDS = 4, 4.0
WATCHES = 200
JSON = {"Content-Type": "application/json"}


def run() -> list[Row]:
    binary = shutil.which("etcd")
    if binary is None:
        return [Row("etcd: not installed (Debian: apt-get install etcd-server)", 0, "")]
    with cluster(binary, members=3, tls=True) as three:
        bare = asyncio.run(_bare(three))
        with running_plane(store_endpoints=three.endpoints, store_embedded=False, etcd_files=three.files) as plane:
            served = asyncio.run(_served(plane))
            told = f"etcd: writes with {WRITERS} clients, 3 members, TLS"
            rows = [Row(told, served, "1/s", bare, ">= 0.8 x floor", served >= 0.8 * bare)]
            rows += asyncio.run(_deaths(plane, three))
            with running_plane(
                plane, store_endpoints=three.endpoints, store_embedded=False, etcd_files=three.files
            ) as other:
                return rows + asyncio.run(_move(plane, other))


async def _busily(write: Callable[[int], Awaitable[None]]) -> float:
    """Writes a second of so many at once, each its next when the last is acknowledged."""
    numbers, until = itertools.count(), time.monotonic() + SECONDS
    done = 0

    async def one() -> None:
        nonlocal done
        while time.monotonic() < until:
            await write(next(numbers))
            done += 1

    await asyncio.gather(*(one() for _ in range(WRITERS)))
    return done / SECONDS


async def _bare(three: Cluster) -> float:
    """The same bytes put by the etcd client alone."""
    client = EtcdClient(three.options())
    await client.start()
    try:

        async def write(number: int) -> None:
            await client.create_if_absent(f"/bare/b-{number}".encode(), configmap(f"b-{number}", size=300))

        return await _busily(write)
    finally:
        await client.close()


async def _served(plane: Plane) -> float:
    async with plane.client() as session:

        async def write(number: int) -> None:
            data = configmap(f"busy-{number}", size=300)
            async with session.post(CONFIGMAPS, data=data, headers=JSON) as answer:
                assert answer.status == 201, await answer.text()

        return await _busily(write)


async def _deaths(plane: Plane, three: Cluster) -> list[Row]:
    """Each member killed once, 20 writes a second going on."""
    slowest, relists, broken = [], 0, 0
    async with Crowd([plane], WATCHES) as crowd:
        for member in range(3):
            async with Churn([plane], f"death{member}-{time.time_ns()}") as churn:
                await churn.at_least(5)
                three.kill(member)
                await churn.at_least(20)
                three.start(member)
                await asyncio.to_thread(three.wait)
            slowest.append(churn.slowest)
        last = max(churn.acknowledged.values())
        await crowd.caught_up(last)
        relists = sum(client.relists for client in crowd.clients)
        broken = sum(client.opened - 1 for client in crowd.clients)
    return [
        at_most("etcd: slowest write while a member dies", [max(slowest)], "s", 3.0),
        Row(f"etcd: lists again of {WATCHES} watches, 3 deaths", relists, "", target="0", ok=not relists),
        Row("etcd: watches that broke", broken, "", target="0", ok=not broken),
    ]


async def _move(plane: Plane, other: Plane) -> list[Row]:
    """One of two control planes killed: its watches go to the other one."""
    async with Crowd([plane, other], WATCHES) as crowd:
        async with Churn([plane], f"move-{time.time_ns()}") as churn:
            await churn.at_least(5)
            crowd.planes = [plane]
            for instance in ("apiserver-0", "watchcache"):
                other.kill(instance)
            await churn.at_least(30)
        await crowd.caught_up(max(churn.acknowledged.values()))
    moved = [client.resumed_after for client in crowd.clients if client.opened > 1]
    relists = sum(client.relists for client in crowd.clients)
    expected = sorted(churn.acknowledged.values())
    behind = sum(client.seen != expected for client in crowd.clients)
    return [
        at_most(f"etcd: {len(moved)} watches at another control plane", [max(moved)], "s", 3.0),
        Row("etcd: of these, listed again", relists, "", target="0", ok=not relists),
        Row("etcd: of these, events missed or repeated", behind, "", target="0", ok=not behind),
    ]
