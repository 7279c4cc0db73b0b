"""kill -9 under load: nothing acknowledged is lost, nothing is half applied; leases and watches go on."""

import asyncio
import time
from typing import Any

import grpc

from protocols.etcd import EtcdClient, EtcdOptions
from protocols.wire import etcd_pb2 as pb
from tests.support.store_lab import Api, Lab, lab, listened_at, play, read, until
from tests.support.waiting import until_async

PAIRS = 12


def pair(worker: int, number: int) -> pb.TxnRequest:
    """Two keys that must always be equal."""
    value = b"%d" % number
    puts = [pb.PutRequest(key=b"crash/%d/%s" % (worker, side), value=value) for side in (b"left", b"right")]
    return pb.TxnRequest(success=[pb.RequestOp(request_put=each) for each in puts])


async def write_on(api: Api, worker: int, acknowledged: dict[int, int], start: int) -> None:
    """Write pairs until the store dies."""
    number = start
    while True:
        number += 1
        try:
            await api.txn(pair(worker, number))
        except grpc.aio.AioRpcError:
            return
        acknowledged[worker] = number


async def storm(api: Api, lab: Lab, acknowledged: dict[int, int], tried: int) -> None:
    writers = [asyncio.create_task(write_on(api, each, acknowledged, tried)) for each in range(PAIRS)]

    def last() -> list[int]:
        return [acknowledged.get(each, tried) for each in range(PAIRS)]

    await until_async(f"all writers past {tried + 8}", last, good=lambda seen: min(seen) >= tried + 8)
    await asyncio.to_thread(lab.kill, "store")
    await asyncio.gather(*writers)


async def check(api: Api, acknowledged: dict[int, int]) -> int:
    found = await api.range(pb.RangeRequest(key=b"crash/", range_end=b"crash0"))
    values = {kv.key: (int(kv.value), kv.mod_revision) for kv in found.kvs}
    for worker, number in acknowledged.items():
        left, right = (values[b"crash/%d/%s" % (worker, side)] for side in (b"left", b"right"))
        assert left == right, "half applied"
        assert number <= left[0] <= number + 1, "an acknowledged write is lost"
    return max((value for value, _ in values.values()), default=0)


async def test_store_killed_keeps_acknowledged_writes() -> None:
    with lab("store") as made:
        until("the store listens", lambda: listened_at(made.socket))
        acknowledged: dict[int, int] = {}
        highest = 0
        for _ in range(2):
            api = Api(made.target, timeout=10)
            await storm(api, made, acknowledged, highest)
            await api.close()
            made.start("store")
            api = Api(made.target)
            highest = await check(api, acknowledged)
            acknowledged.clear()
            await api.close()
        assert highest > 10


async def test_watch_store_killed_resumes_at_revision() -> None:
    with lab("store") as made:
        client = EtcdClient(EtcdOptions(endpoints=(made.target,)))
        await client.start()
        first = await client.put(b"w/a", b"1")
        async with client.watch(b"w/") as watch:
            await client.put(b"w/a", b"2")
            seen = (await anext(watch)).events[-1].kv.mod_revision
        await asyncio.to_thread(made.restart, "store")  # the loop goes on, and sees the connection end
        await client.put(b"w/a", b"3")
        async with client.watch(b"w/", seen + 1) as watch:
            event = (await anext(watch)).events[0]
        assert (event.kv.value, event.kv.mod_revision) == (b"3", first + 2)
        assert event.previous is not None
        assert event.previous.value == b"2"
        await client.close()


def test_lease_store_restarted_expires() -> None:
    async def grant(api: Api) -> Any:
        granted = await api.grant(pb.LeaseGrantRequest(TTL=2))
        await api.put(pb.PutRequest(key=b"l/a", lease=granted.ID))
        return granted.ID

    async def wait_gone(api: Api) -> None:
        stream = api.watch()
        create = pb.WatchCreateRequest(key=b"l/a", start_revision=3)
        await stream.write(pb.WatchRequest(create_request=create))
        await read(stream)
        event = (await read(stream)).events[0]
        assert event.type == 1
        assert (await api.leases(pb.LeaseLeasesRequest())).leases == []
        stream.cancel()

    with lab("store") as made:
        begun = time.monotonic()
        play(made.target, grant)
        made.restart("store")
        play(made.target, wait_gone)
        assert 1.5 < time.monotonic() - begun < 40.0
