"""On a cluster of Debian's etcd, three members with TLS on this machine: writes, and what a dead member costs."""

import asyncio
import shutil
import time
from contextlib import AbstractContextManager
from pathlib import Path

import grpc
import uvloop

from tests.bench.row import Row, Unmeasured, at_most
from tests.bench.write_bench import RATIO_LIMIT, ROUNDS, SECONDS, WRITERS, bare, served
from tests.support.apiserver_plane import Plane, running_plane
from tests.support.etcd_cluster import Cluster, cluster
from tests.support.resuming import Churn, Crowd

WATCHES, DEATHS = 200, 3
ETCD_GIVES_UP_S = 6.0
"""When etcd gives up a write that its old leader took: 5 s and two election timeouts."""


def run() -> list[Row]:
    binary = shutil.which("etcd")
    if binary is None:
        raise Unmeasured("etcd is not installed (Debian: apt-get install etcd-server)")
    with cluster(binary, members=3, tls=True) as three, plane_on(three) as plane:
        rows = [_writes(plane, three), *asyncio.run(_deaths(plane, three))]
        with plane_on(three, beside=plane) as other:
            return rows + asyncio.run(_move(plane, other))


def plane_on(three: Cluster, beside: Plane | None = None) -> AbstractContextManager[Plane]:
    return running_plane(beside, store_endpoints=three.endpoints, store_embedded=False, etcd_files=three.files)


def _writes(plane: Plane, three: Cluster) -> Row:
    """The floor: the same bytes put by as many Python clients of etcd, by gRPC's library. In turn, the best of each."""
    files = three.files
    ca, key, cert = (Path(file).read_bytes() for file in (files.ca, files.key, files.cert))
    credentials = grpc.ssl_channel_credentials(ca, key, cert)
    rounds = [
        (served(plane) / SECONDS, uvloop.run(bare(three.endpoints, credentials)) / SECONDS) for _ in range(ROUNDS)
    ]
    ours, floor = max(one for one, _ in rounds), max(one for _, one in rounds)
    told = f"etcd: writes with {WRITERS} clients, 3 members, TLS"
    return Row(told, ours, "1/s", floor, f">= {RATIO_LIMIT} x floor", ours >= RATIO_LIMIT * floor)


async def _deaths(plane: Plane, three: Cluster) -> list[Row]:
    """Each member killed once, 20 writes a second going on."""
    slowest, relists, broken = [], 0, 0
    async with Crowd([plane], WATCHES) as crowd:
        for member in range(DEATHS):
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
        at_most("etcd: slowest write while a member dies", [max(slowest)], "s", ETCD_GIVES_UP_S + 1.0),
        Row(f"etcd: lists again of {WATCHES} watches, {DEATHS} deaths", relists, "", target="0", ok=not relists),
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
