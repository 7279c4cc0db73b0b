"""Random requests, told to our store and to Debian's etcd: every answer and every event is the same.

NODEPLANE_STORE_ROUNDS=100 runs longer, NODEPLANE_STORE_SEED=n repeats a run.
"""

import asyncio
import os
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from protocols.wire import etcd_pb2 as pb
from protocols.wire import mvcc_pb2
from tests.integration.etcd_fixture import etcd_binary
from tests.support.etcd_script import KEYS, Script, answer
from tests.support.seed import seed_of
from tests.support.store_lab import Api, etcd_process, lab, listened_at, read, until

pytestmark = pytest.mark.heavy

ROUNDS = int(os.environ.get("NODEPLANE_STORE_ROUNDS", "1"))
SEED = seed_of("NODEPLANE_STORE_SEED")
CALLS = 400
WATCHES = 12


@asynccontextmanager
async def api_of(target: str) -> AsyncIterator[Api]:
    api = Api(target)
    yield api
    await api.close()


async def watch_all(api: Api) -> Any:
    stream = api.watch()
    create = pb.WatchCreateRequest(key=b"s/", range_end=b"s0", prev_kv=True)
    await stream.write(pb.WatchRequest(create_request=create))
    await read(stream)
    return stream


async def events_to(stream: Any, revision: int) -> list[mvcc_pb2.Event]:
    """All events up to the one of `revision`."""
    events: list[mvcc_pb2.Event] = []
    while not events or events[-1].kv.mod_revision < revision:
        events.extend((await read(stream)).events)
    stream.cancel()
    return events


async def same_answers(ours: Api, etcd: Api, seed: int) -> None:
    script = Script(seed)
    streams = [await watch_all(ours), await watch_all(etcd)]
    script.revision = (await etcd.range(pb.RangeRequest(key=b"s/a"))).header.revision
    for kind in script.calls(CALLS):
        request = script.request(kind)
        expected, found = await answer(etcd, kind, request), await answer(ours, kind, request)
        assert found == expected, f"NODEPLANE_STORE_SEED={SEED}, {kind} at {script.revision}: {request}"
        script.revision = getattr(getattr(expected, "header", None), "revision", script.revision)
    creates = [script.watch() for _ in range(WATCHES)]
    further = [await watch_each(api, creates) for api in (ours, etcd)]
    for number in range(3):
        for api in (ours, etcd):
            await api.put(pb.PutRequest(key=KEYS[number], value=b"later"))
    last = [(await api.put(pb.PutRequest(key=b"s/last"))).header.revision for api in (ours, etcd)]
    heard = [await events_to(stream, revision) for stream, revision in zip(streams, last, strict=True)]
    assert heard[0] == heard[1], f"NODEPLANE_STORE_SEED={SEED}"
    told = [await told_by(stream) for stream in further]
    assert told[0] == told[1], f"NODEPLANE_STORE_SEED={SEED}, {creates}"


async def watch_each(api: Api, creates: list[pb.WatchCreateRequest]) -> Any:
    stream = api.watch()
    for create in creates:
        await stream.write(pb.WatchRequest(create_request=create))
    await asyncio.sleep(0.3)  # etcd sends what has passed ten times a second
    return stream


async def told_by(stream: Any) -> dict[int, list[Any]]:
    """What each watch of a stream is told, until it is silent: its begin and end, and events as they come."""
    told: defaultdict[int, list[Any]] = defaultdict(list)
    with suppress(TimeoutError):
        while True:
            response = await read(stream, 0.5)
            if response.created or response.canceled:
                fields = response.created, response.canceled, response.compact_revision, response.cancel_reason
                told[response.watch_id].append(fields)
            told[response.watch_id].extend(response.events)
    stream.cancel()
    return dict(told)


@pytest.mark.timeout(120 + 20 * ROUNDS)
async def test_store_random_requests_answer_as_etcd() -> None:
    with lab("store") as made, etcd_process(etcd_binary()) as etcd:
        until("the store listens", lambda: listened_at(made.socket))
        ours = made.target
        theirs = etcd
        async with api_of(ours) as one, api_of(theirs) as other:
            for seed in range(SEED, SEED + 4 * ROUNDS):
                await same_answers(one, other, seed)
