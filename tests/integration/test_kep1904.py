"""KEP-1904's scenarios with the gate on: who resumes a watch is never sent back to list. X is configmaps, Y secrets."""

import asyncio
import json
import signal
import time

import pytest

from actors.apiserver.actor import FRESH_BEFORE_STOP
from tests.integration.servers_fixture import Two, servers, store
from tests.support.resuming import Churn, Crowd
from tests.support.servers import X, Y, reaches, session

__all__ = ["servers", "store"]


@pytest.mark.scenario("A2")
async def test_a_restarted_server_accepts_the_last_bookmark(servers: Two) -> None:
    one, _ = servers
    async with session(one) as client:
        x = await client.create(X, "a2")
        async with client.watch(x) as watch:
            y = await client.create(Y, "a2")
            began = time.monotonic()
            ending = asyncio.create_task(asyncio.to_thread(one.stop, signal.SIGTERM))
            kind, bookmark, _ = (await watch.rest())[-1]
            assert kind == "BOOKMARK"
            waited = time.monotonic() - began
            assert bookmark >= y or waited >= FRESH_BEFORE_STOP, "it waits for what can be had soon"
            await ending
    await asyncio.to_thread(one.start)
    async with session(one) as client, client.watch(bookmark) as watch:
        changed = await client.touch(X, "a2", "1")
        assert await watch.next() == ("MODIFIED", changed, "a2")


@pytest.mark.scenario("A4")
async def test_two_servers_converge_without_a_write(servers: Two) -> None:
    one, other = servers
    async with session(one) as client, session(other) as second:
        x = await client.create(X, "a4")
        y = await client.create(Y, "a4")
        await reaches(one, y)
        await reaches(other, y)
        async with client.watch(x, timeoutSeconds="1") as watch:
            kind, bookmark, _ = await watch.next()
            assert (kind, bookmark >= y) == ("BOOKMARK", True)
        async with second.watch(bookmark) as watch:
            changed = await second.touch(X, "a4", "1")
            assert await watch.next() == ("MODIFIED", changed, "a4")
    for server in servers:
        text = await server.plane.metrics("watchcache")
        assert "etcd_bookmark_total" in text


@pytest.mark.scenario("A5")
async def test_from_a_newer_to_an_older_server(servers: Two) -> None:
    older, newer = servers
    async with session(newer) as client, session(older) as behind:
        start = await client.create(X, "a5")
        await reaches(older, start)
        older.signal("watchcache", signal.SIGSTOP)
        versions = [await client.touch(X, "a5", str(number)) for number in range(5)]
        async with behind.watch(versions[-1]) as watch:
            older.signal("watchcache", signal.SIGCONT)
            last = await client.touch(X, "a5", "last")
            assert await watch.next() == ("MODIFIED", last, "a5"), "nothing up to its own version comes again"


@pytest.mark.scenario("A6")
async def test_from_an_older_to_a_newer_server(servers: Two) -> None:
    one, other = servers
    async with session(one) as client, session(other) as second:
        start = await client.create(X, "a6")
        kept = await client.touch(X, "a6", "kept")
        for number in range(20):
            y = await client.create(Y, f"a6-{number}")
        await reaches(other, y)
        async with second.watch(start) as watch:
            assert await watch.next() == ("MODIFIED", kept, "a6"), "progress evicted nothing"
            live = await client.touch(X, "a6", "live")
            assert await watch.next() == ("MODIFIED", live, "a6")


@pytest.mark.scenario("A8")
async def test_rolling_restart_under_200_watches(servers: Two) -> None:
    planes = [server.plane for server in servers]
    async with Crowd(planes, 200) as crowd, session(servers[0]) as client:
        async with Churn(planes, "a8", every=0.05, path=Y):
            for server in servers:
                crowd.planes = [plane for plane in planes if plane is not server.plane]
                await asyncio.to_thread(server.restart, None, signal.SIGTERM)
                crowd.planes = planes
        async with session(servers[1]) as second:
            x = await second.create(X, "a8")
        await crowd.caught_up(x)
        crowd.check([x])
        assert sum(c.opened for c in crowd.clients) >= 400, "each had to move at least once"
    for server in servers:
        assert await server.metric("watchcache", "apiserver_watch_cache_initializations_total") == 1
    assert client


@pytest.mark.scenario("A8b")
async def test_clients_of_one_server_reconnect_to_it(servers: Two) -> None:
    """Claimed: the history read at start reaches below the list, so a lone server's clients resume as well."""

    one, other = servers
    async with Crowd([one.plane], 60) as crowd:
        async with Churn([other.plane], "a8b", every=0.02, path=Y) as churn:
            await asyncio.to_thread(one.stop, signal.SIGTERM)
            await churn.at_least(5)
            await asyncio.to_thread(one.start)
        async with session(one) as client:
            x = await client.create(X, "a8b")
        await crowd.caught_up(x)
        crowd.check([x])


@pytest.mark.scenario("A9")
async def test_the_last_bookmark_is_truthful(servers: Two) -> None:
    one, other = servers
    async with session(one) as client, session(other) as second:
        start = await client.create(X, "a9")
        reader, writer = await asyncio.open_connection("127.0.0.1", one.plane.port, ssl=one.plane.tls(), limit=1024)
        query = f"watch=true&allowWatchBookmarks=true&resourceVersion={start}"
        writer.write(f"GET {X}?{query} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        async with client.watch(start) as watch:
            written = [await second.touch(X, "a9", f"{number:05}" * 10_000) for number in range(10)]
            y = await second.create(Y, "a9")
            await reaches(one, y)
            began = time.monotonic()
            ending = asyncio.create_task(asyncio.to_thread(one.stop, signal.SIGTERM))
            *events, (kind, bookmark, _) = await watch.rest()
        await ending
        assert time.monotonic() - began < 30
        assert [rv for _, rv, _ in events] == written
        assert (kind, bookmark >= y) == ("BOOKMARK", True)
        slow = [json.loads(line) for line in (await read_to_end(reader)).splitlines()]
        writer.transport.abort()
        if slow and slow[-1]["type"] == "BOOKMARK":
            got = [int(event["object"]["metadata"]["resourceVersion"]) for event in slow[:-1]]
            assert got == written, "a bookmark says that all before it was delivered"
    await asyncio.to_thread(one.start)


async def read_to_end(reader: asyncio.StreamReader) -> bytes:
    """Whole lines only: what a dropped connection cut short tells nothing."""
    data = b""
    try:
        while chunk := await asyncio.wait_for(reader.read(65536), 10):
            data += chunk
    except (ConnectionError, TimeoutError):
        pass
    return data[: data.rfind(b"\n") + 1]


@pytest.mark.scenario("A10")
async def test_shutdown_waits_for_progress_with_a_limit(servers: Two) -> None:
    """That it waits for what can be had soon is A2."""

    one, other = servers
    async with session(other) as second:
        start = await second.create(X, "a10")
        x = await second.create(X, "a10-2")
        await reaches(one, x)
        one.signal("watchcache", signal.SIGSTOP)
        later = await second.create(Y, "a10")
        async with session(one) as client, client.watch(start) as watch:
            began = time.monotonic()
            one.signal("apiserver-0", signal.SIGTERM)
            first, *bookmarks = await watch.rest()
            assert first == ("ADDED", x, "a10-2")
            assert all(kind == "BOOKMARK" and rv < later for kind, rv, _ in bookmarks), (
                "nobody here knows what is later"
            )
        assert time.monotonic() - began < 30
        one.signal("watchcache", signal.SIGCONT)
        one.stop()
    await asyncio.to_thread(one.start)


@pytest.mark.scenario("A11")
async def test_progress_is_not_forwarded(servers: Two) -> None:
    """Four times a second from etcd, once a minute to each client."""

    one, other = servers
    async with Crowd([one.plane], 100) as crowd, session(other) as second:
        for _ in range(10):
            y = await second.create(Y, f"a11-{time.monotonic_ns()}")
            await asyncio.sleep(0.1)
        await reaches(one, y)
        assert not any(client.bookmarks or client.seen for client in crowd.clients)
        x = await second.create(X, "a11")
        await crowd.caught_up(x)
        crowd.check([x])
