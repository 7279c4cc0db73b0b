"""KEP-1904's scenarios with the gate off: the problem it solves, kept as it was. X is configmaps, Y secrets.

On etcd, which tells of progress unasked: a server with the gate off takes no notice of it.
"""

import asyncio
import signal

import pytest

from tests.integration.servers_fixture import Two, old_servers, store
from tests.support.servers import X, Y, reaches, session

__all__ = ["old_servers", "store"]
pytestmark = pytest.mark.parametrize("store", ["etcd"], indirect=True)


@pytest.mark.scenario("A1")
async def test_a_restart_makes_an_idle_watch_too_old(old_servers: Two) -> None:
    one, _ = old_servers
    async with session(one) as client:
        x = await client.create(X, "a1")
        y = await client.create(Y, "a1")
    await asyncio.to_thread(one.restart)
    listed = await one.cache_rv()
    assert listed >= y
    async with session(one) as client:
        async with client.watch(x) as watch:
            assert await watch.next() == ("ERROR", 410, f"too old resource version: {x} ({listed})")
            assert await watch.next() == ("", 0, "")
        again = await client.version()
        async with client.watch(again) as watch:
            changed = await client.touch(X, "a1", "1")
            assert await watch.next() == ("MODIFIED", changed, "a1"), "one list was enough"


@pytest.mark.scenario("A3")
async def test_servers_diverge_while_x_is_idle(old_servers: Two) -> None:
    one, other = old_servers
    await asyncio.to_thread(one.restart)
    first = await one.cache_rv()
    async with session(one) as client:
        y = await client.create(Y, "a3")
    await asyncio.to_thread(other.restart)
    second = await other.cache_rv()
    assert second >= y > first
    await asyncio.sleep(0.6)  # more than two of etcd's progress notifications
    assert (await one.cache_rv(), await other.cache_rv()) == (first, second)
    async with session(other) as client, client.watch(first) as watch:
        assert (await watch.next())[:2] == ("ERROR", 410)


@pytest.mark.scenario("A12")
async def test_bookmarks_carry_x_only_and_the_gate_may_be_switched(old_servers: Two) -> None:
    one, _ = old_servers
    async with session(one) as client:
        x = await client.create(X, "a12")
        y = await client.create(Y, "a12")
        assert await client.version() >= y, "a list of what is newest comes from the store"
        async with client.watch(x, timeoutSeconds="1") as watch:
            marks = await watch.rest()
            assert [mark[:2] for mark in marks] == [("BOOKMARK", x)], "Y moves no bookmark"
        async with client.watch(x) as watch:
            await asyncio.to_thread(one.stop, signal.SIGTERM)
            assert await watch.rest() == [], "none at the end either"
        before = y
    await asyncio.to_thread(one.start, True)
    assert await one.cache_rv() >= before
    async with session(one) as client:
        y = await client.create(Y, "a12-2")
        await reaches(one, y)
        async with client.watch(x, timeoutSeconds="1") as watch:
            kind, bookmark, _ = await watch.next()
            assert (kind, bookmark >= y) == ("BOOKMARK", True)
    await asyncio.to_thread(one.restart, False)
    assert await one.cache_rv() >= bookmark


@pytest.mark.scenario("A12")
async def test_initial_events_need_progress(old_servers: Two) -> None:
    one, _ = old_servers
    query = {"watch": "1", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    async with session(one) as client:
        async with client.http.get(X, params=query) as answer:
            assert answer.status == 422
            assert "WatchList feature gate" in (await answer.json())["message"]
        async with client.http.get(X, params={"watch": "1", "timeoutSeconds": "1"}) as answer:
            assert answer.status == 200
    text = await one.plane.metrics("watchcache")
    assert 'etcd_bookmark_total{group="",resource="configmaps"} 0' in text
