"""How many writes there may be: four clients, each its next write when the last is acknowledged, to disk every time.

The floor is the same writes without Kubernetes: as many Python clients of the etcd API, with the same guarded puts. Of
etcd they use gRPC's library, as Python programs do, not our own client; that one is told of in a row of its own.
"""

import asyncio
import itertools
import shutil
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import grpc
import uvloop

from protocols.etcd import guarded
from protocols.etcd.client import EtcdClient
from protocols.etcd.options import EtcdOptions, store_options
from protocols.wire import etcd_pb2 as pb
from tests.bench.cel_bench import policy_rows
from tests.bench.row import Row, missing
from tests.bench.watch_lab import configmap, cpu_seconds
from tests.bench.write_client import written
from tests.support.apiserver_plane import Plane, running_plane
from tests.support.store_lab import etcd_process

WRITERS, SECONDS, ROUNDS = 4, 2.0, 3
LIMIT, RATIO_LIMIT = 1000.0, 0.8
Write = Callable[[bytes], Awaitable[None]]


def run() -> list[Row]:
    return [*on_sqlite(), *on_etcd()]


def on_sqlite() -> list[Row]:
    with running_plane() as plane:
        options = store_options(plane.settings, plane.settings.layout)[0]
        spent = Spent(plane)
        ours, bare = best(plane, options, spent)
        cpu = spent.per_write()
        policies = policy_rows(plane)
    name = f"writes: {WRITERS} clients, SQLite with fsync"
    return [
        Row(name, ours, "1/s", bare, f">= {LIMIT:g} 1/s", ours >= LIMIT),
        *(Row(f"writes: CPU per write, {process}", each, "us") for process, each in cpu.items()),
        *policies,
    ]


def on_etcd() -> list[Row]:
    binary = shutil.which("etcd")
    if binary is None:
        return [missing("writes: on etcd", "etcd is not installed (Debian: apt-get install etcd-server)")]
    with etcd_process(binary) as target, plane_on(target) as plane:
        spent = Spent(plane)
        ours, bare = best(plane, target, spent)
        cpu = spent.per_write()
        own = uvloop.run(without(EtcdOptions(endpoints=(target,)))) / SECONDS
    name, target_text = f"writes: {WRITERS} clients, etcd", f">= {RATIO_LIMIT} x bare"
    return [
        Row(name, ours, "1/s", bare, target_text, ours >= RATIO_LIMIT * bare),
        Row("writes: the same, our client of etcd alone", own, "1/s"),
        *(Row(f"writes: on etcd, CPU per write, {process}", each, "us") for process, each in cpu.items()),
    ]


@contextmanager
def plane_on(target: str) -> Iterator[Plane]:
    with running_plane(store_endpoints=(target,), store_embedded=False) as plane:
        yield plane


class Spent:
    """CPU of the plane's processes while it is written to."""

    def __init__(self, plane: Plane) -> None:
        self._pids = {name: process.pid for name, process in plane.processes.items()}
        self._seconds = dict.fromkeys(self._pids, 0.0)
        self._writes = 0

    def begin(self) -> None:
        self._before = {name: cpu_seconds(pid) for name, pid in self._pids.items()}

    def end(self, writes: int) -> None:
        self._writes += writes
        for name, pid in self._pids.items():
            self._seconds[name] += cpu_seconds(pid) - self._before[name]

    def per_write(self) -> dict[str, float]:
        return {name: 1e6 * seconds / max(self._writes, 1) for name, seconds in self._seconds.items()}


def best(plane: Plane, floor: EtcdOptions | str, spent: Spent) -> tuple[float, float]:
    """Writes a second through the API and without it: the best of several rounds in turn, as the disk has its moods.
    A server's first seconds are not counted: Python makes code quicker that runs often."""
    served(plane)
    rounds = [pair(plane, floor, spent) for _ in range(ROUNDS)]
    return max(ours for ours, _ in rounds), max(bare for _, bare in rounds)


NUMBERS = itertools.count()


def body() -> bytes:
    return configmap(f"busy-{next(NUMBERS)}", size=300)


def pair(plane: Plane, floor: EtcdOptions | str, spent: Spent) -> tuple[float, float]:
    spent.begin()
    ours = served(plane)
    spent.end(ours)
    least = uvloop.run(bare((floor,)) if isinstance(floor, str) else without(floor))
    return ours / SECONDS, least / SECONDS


def served(plane: Plane) -> int:
    """Through the API server."""
    return written(plane, WRITERS, SECONDS, body)


async def bare(targets: tuple[str, ...], credentials: grpc.ChannelCredentials | None = None) -> int:
    """By gRPC's library, a channel for each client, to the members in turn."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    channels = [
        grpc.aio.secure_channel(target, credentials, options=options)
        if credentials is not None
        else grpc.aio.insecure_channel(target, options=options)
        for target in itertools.islice(itertools.cycle(targets), WRITERS)
    ]

    def writes_of(channel: grpc.aio.Channel) -> Write:
        txn = channel.unary_unary("/etcdserverpb.KV/Txn", pb.TxnRequest.SerializeToString, pb.TxnResponse.FromString)

        async def write(data: bytes) -> None:
            assert (await txn(guarded.create(b"/bare/%d" % next(NUMBERS), data, 0), timeout=5.0)).succeeded

        return write

    try:
        return await busily([writes_of(channel) for channel in channels])
    finally:
        for channel in channels:
            await channel.close()


async def without(options: EtcdOptions) -> int:
    clients = [EtcdClient(options) for _ in range(WRITERS)]

    def writes_of(client: EtcdClient) -> Write:
        async def write(data: bytes) -> None:
            assert (await client.create_if_absent(b"/bare/%d" % next(NUMBERS), data)).ok

        return write

    for client in clients:
        await client.start()
    try:
        return await busily([writes_of(client) for client in clients])
    finally:
        for client in clients:
            await client.close()


async def busily(writers: list[Write]) -> int:
    until = time.monotonic() + SECONDS
    done = 0

    async def one(write: Write) -> None:
        nonlocal done
        while time.monotonic() < until:
            await write(body())
            done += 1

    await asyncio.gather(*(one(write) for write in writers))
    return done
