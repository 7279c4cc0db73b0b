"""Several clients, a few keys, kill -9 in between: the history is linearizable, and the events are exactly the history.

NODEPLANE_STORE_ROUNDS=100 kills that much oftener, NODEPLANE_STORE_SEED=n draws the same operations again.
"""

import asyncio
import os
import random

import pytest

from protocols.wire import etcd_pb2 as pb
from protocols.wire import mvcc_pb2
from tests.integration.etcd_fixture import etcd_binary
from tests.support.killable import Killable, debian_etcd, our_store
from tests.support.linear import linearizable
from tests.support.replay import Replay, check_pairs, check_told
from tests.support.seed import seed_of
from tests.support.store_clients import END, PREFIX, Client, Follower, Notes
from tests.support.store_lab import Api, read
from tests.support.waiting import until_async

ROUNDS = int(os.environ.get("NODEPLANE_STORE_ROUNDS", "1"))
SEED = seed_of("NODEPLANE_STORE_SEED")
CLIENTS, KILLS = 4, 2


async def whole_history(api: Api, revision: int) -> list[mvcc_pb2.Event]:
    """By one watch, after all is over."""
    stream, events = api.watch(), list[mvcc_pb2.Event]()
    create = pb.WatchCreateRequest(key=PREFIX, range_end=END, start_revision=1, prev_kv=True)
    await stream.write(pb.WatchRequest(create_request=create))
    while not events or events[-1].kv.mod_revision < revision:
        events.extend((await read(stream)).events)
    stream.cancel()
    return events


async def trouble(store: Killable, notes: Notes, kills: int) -> None:
    """Kill it again and again, each time in the middle of work."""
    for _ in range(kills):
        await more_told(notes)
        await asyncio.to_thread(store.kill)
        await asyncio.sleep(random.uniform(0.0, 0.1))
        store.start()
    await more_told(notes)


async def more_told(notes: Notes) -> None:
    enough = len(notes.told) + random.randint(80, 240)
    await until_async(f"{enough} notes", lambda: len(notes.told), every=0.005, good=lambda count: count >= enough)


async def history(store: Killable) -> None:
    notes, over, follower = Notes(), asyncio.Event(), Follower(store.target)
    following = asyncio.create_task(follower.run())
    clients = [Client(f"c{number}", store.target, notes, SEED).run(over) for number in range(CLIENTS)]
    running = asyncio.gather(*clients)
    await trouble(store, notes, KILLS * ROUNDS)
    over.set()
    await running
    api = Api(store.target)
    last = await put_last(api)
    await follower.reach(last)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    events = await whole_history(api, last)
    await api.close()
    assert follower.events == events, "a resumed watch differs from the history"
    judge(notes, Replay(follower.events))


async def put_last(api: Api) -> int:
    return int((await api.put(pb.PutRequest(key=PREFIX + b"last"))).header.revision)


def judge(notes: Notes, replay: Replay) -> None:
    check_told(replay, notes.told)
    check_pairs(replay)
    for key, operations in notes.operations.items():
        assert linearizable(operations), f"{key!r} is not linearizable; NODEPLANE_STORE_SEED={SEED}"


@pytest.mark.timeout(200 + 10 * ROUNDS)
@pytest.mark.parametrize("door", [False, True], ids=["grpc", "door"])
async def test_store_history_with_kills_is_linearizable(door: bool) -> None:
    with our_store(door) as store:
        await history(store)


@pytest.mark.timeout(200 + 10 * ROUNDS)
async def test_etcd_history_with_kills_is_linearizable() -> None:
    with debian_etcd(etcd_binary()) as store:
        await history(store)
