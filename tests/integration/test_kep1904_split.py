"""KEP-1904 A7 and A13: two stores behind one API never mix their revisions; an etcd that hardly tells progress will do.

The main store is Debian's etcd with its default of ten minutes between progress notifications; leases are in a second
etcd, events in SQLite.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from protocols.etcd.client import EtcdClient
from protocols.etcd.options import EtcdOptions
from protocols.process.settings import StoreSettings
from tests.integration.etcd_fixture import etcd_binary
from tests.support.apiserver_plane import Plane
from tests.support.etcd_cluster import Cluster, cluster
from tests.support.servers import LEASES, Server, Session, X, Y, reaches, session
from tests.support.waiting import until_async

EVENTS = "/api/v1/namespaces/default/events"
MANY = 80


@pytest.fixture(scope="module")
def etcd() -> Iterator[Cluster]:
    """An etcd that sends progress rarely."""
    with cluster(etcd_binary(), progress="10m") as made:
        yield made


@pytest.fixture(scope="module")
def other() -> Iterator[Cluster]:
    """Another etcd, for leases."""
    with cluster(etcd_binary()) as made:
        yield made


@pytest.fixture(scope="module")
def server(etcd: Cluster, other: Cluster) -> Iterator[Server]:
    """An API server whose resources are divided among three stores."""
    plane = Plane(store_endpoints=etcd.endpoints, store_embedded=False, store_sync="normal")
    events = StoreSettings(endpoints=(f"unix:{plane.root}/run/store.sock",), embedded=True, resources=("events",))
    leases = StoreSettings(endpoints=other.endpoints, resources=("leases.coordination.k8s.io",))
    plane.change(store_splits=(events, leases))
    try:
        plane.start()
        yield Server(plane)
    finally:
        plane.close()


def event(number: int) -> dict[str, Any]:
    about = {"kind": "Pod", "namespace": "default", "name": "p"}
    metadata = {"name": f"e-{number}", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Event", "metadata": metadata, "involvedObject": about, "reason": "R"}


async def write_events(client: Session, start: int, count: int) -> int:
    last = 0
    for number in range(start, start + count):
        async with client.http.post(EVENTS, json=event(number)) as answer:
            body = await answer.json()
            assert answer.status == 201, body
            last = int(body["metadata"]["resourceVersion"])
    return last


@pytest.mark.scenario("A7")
async def test_no_version_leaks_from_one_store_to_the_other(server: Server) -> None:
    async with session(server) as client:
        x = await client.create(X, "a7")
        last = await write_events(client, 0, MANY)
        assert last > x + 50, "the events' store is far ahead"
        newest = await client.create(Y, "a7")
        assert newest == x + 1
        await reaches(server, newest)
        assert await server.cache_rv() == newest
        assert await client.version() == newest
        assert await client.version(X, resourceVersion="0") == newest
        assert await client.version(EVENTS) == last
        await reaches(server, last, "events")
        assert await server.cache_rv("events") == last
        async with client.watch(x, timeoutSeconds="1") as watch:
            assert await watch.rest() == [("BOOKMARK", newest, "")], "Y moves X, events do not"
        async with client.watch(last - 2, EVENTS, timeoutSeconds="1") as watch:
            events = [rv for kind, rv, _ in await watch.rest() if kind != "BOOKMARK"]
        assert events == [last - 1, last]


@pytest.mark.scenario("A7")
async def test_continue_tokens_are_read_at_their_own_store(server: Server) -> None:
    async with session(server) as client:
        seen, token, versions = 0, "", set()
        while True:
            query = {"limit": "40", **({"continue": token} if token else {})}
            async with client.http.get(EVENTS, params=query) as answer:
                body = await answer.json()
                assert answer.status == 200, body
            seen += len(body["items"])
            versions.add(body["metadata"]["resourceVersion"])
            token = body["metadata"].get("continue", "")
            if not token:
                break
        assert seen >= MANY
        assert len(versions) == 1


@pytest.mark.scenario("A7")
async def test_a_restart_and_an_outage_of_one_store_leave_the_other_alone(server: Server, etcd: Cluster) -> None:
    async with session(server) as client:
        x = await client.create(X, "a7-2")
        last = await write_events(client, 1000, 1)
    await asyncio.to_thread(server.restart)
    async with session(server) as client:
        async with client.watch(x) as configmaps, client.watch(last, EVENTS) as events:
            etcd.kill()
            more = await write_events(client, 2000, 3)
            assert [(await events.next())[1] for _ in range(3)] == [more - 2, more - 1, more]
            async with client.http.get("/readyz/etcd-override-0") as answer:
                assert answer.status == 200
            etcd.start()
            await asyncio.to_thread(etcd.wait)
            changed = await client.touch(X, "a7-2", "1")
            assert await configmaps.next() == ("MODIFIED", changed, "a7-2")
        async with client.http.get("/readyz?verbose") as answer:
            text = await answer.text()
            assert "[+]etcd ok" in text
            assert "[+]etcd-override-0 ok" in text


async def pages(client: Session, path: str, limit: int) -> AsyncIterator[tuple[str, int]]:
    """Version and size of each page; the next one is asked for when the caller wants it."""
    token = ""
    while True:
        page = await answered(client, path, limit=str(limit), **({"continue": token} if token else {}))
        yield page["metadata"]["resourceVersion"], len(page["items"])
        token = page["metadata"].get("continue", "")
        if not token:
            return


async def answered(client: Session, path: str, **query: str) -> dict[str, Any]:
    """The list, once its store is there again: 503 tells to come back, and a client does."""

    async def listed() -> tuple[int, Any]:
        async with client.http.get(path, params=query) as answer:
            assert answer.status in (200, 429, 503, 504), await answer.text()
            return answer.status, await answer.json()

    _, page = await until_async(f"a list of {path}", listed, 30, 0.1, good=lambda found: found[0] == 200)
    return dict(page)


@pytest.mark.scenario("A7")
@pytest.mark.parametrize("killed", ["main", "other"])
async def test_watches_lists_and_tokens_outlive_a_kill_of_either_etcd(
    server: Server, etcd: Cluster, other: Cluster, killed: str
) -> None:
    victim, (hit, spared) = (etcd, (X, LEASES)) if killed == "main" else (other, (LEASES, X))

    async with session(server) as client:
        start = {path: [await client.create(path, f"{killed}-{n}") for n in range(3)][-1] for path in (X, LEASES)}
        listing = pages(client, hit, 2)
        version, size = await anext(listing)
        assert (int(version), size) == (start[hit], 2), "a list of the newest, of its own store"
        async with client.watch(start[hit], hit) as struck, client.watch(start[spared], spared) as calm:
            victim.kill()
            made = await client.create(spared, f"{killed}-while")
            assert await calm.next() == ("ADDED", made, f"{killed}-while"), "the other store serves on"
            assert await client.version(spared) == made
            victim.start()
            await asyncio.to_thread(victim.wait)
            await answered(client, hit)
            changed = await client.touch(hit, f"{killed}-0", "1")
            assert await struck.next(40.0) == ("MODIFIED", changed, f"{killed}-0"), "the same watch, nothing lost"
        rest = [page async for page in listing]
        assert rest
        assert {each for each, _ in rest} == {version}, "pages stay at the version of the first"
        least = await etcd_revision(etcd)
        assert least <= await client.version(X) <= await etcd_revision(etcd)


async def etcd_revision(etcd: Cluster) -> int:
    client = EtcdClient(etcd.options())
    await client.start()
    try:
        return await client.current_revision()
    finally:
        await client.close()


@pytest.mark.parametrize("path", [X, EVENTS], ids=["etcd", "sqlite"])
async def test_lists_of_compacted_revisions_are_served_from_the_window(
    server: Server, etcd: Cluster, path: str
) -> None:
    target = EtcdOptions(endpoints=(f"unix:{server.plane.root}/run/store.sock",)) if path == EVENTS else etcd.options()

    async with session(server) as client:
        if path == EVENTS:
            await write_events(client, 3000, 3)
        else:
            for number in range(3):
                await client.create(path, f"compacted-{number}")
        first = await answered(client, path, limit="1")
        old, token = first["metadata"]["resourceVersion"], first["metadata"]["continue"]
        newer = await write_events(client, 4000, 2) if path == EVENTS else await client.create(path, "compacted-3")
        await compact(target, newer)
        exact = {"resourceVersion": old, "resourceVersionMatch": "Exact"}
        rest = await answered(client, path, **{"continue": token})
        assert rest["metadata"]["resourceVersion"] == old
        assert (await answered(client, path, **exact))["items"] == [first["items"][0], *rest["items"]]


async def compact(target: EtcdOptions, revision: int) -> None:
    client = EtcdClient(target)
    await client.start()
    try:
        await client.compact(revision)
    finally:
        await client.close()


@pytest.mark.scenario("A13")
async def test_without_progress_everything_works_and_nothing_complains(server: Server, etcd: Cluster) -> None:
    """What others write to this etcd, outside of the API's keys, must not keep a list of the newest waiting."""

    async with session(server) as client:
        log = (server.plane.root / "apiserver-0.log").read_text()
        x = await client.create(X, "a13")
        foreign = await etcd.put("/elsewhere", "1")
        assert foreign > x
        began = asyncio.get_running_loop().time()
        for _ in range(20):
            assert await client.version() == foreign
        assert asyncio.get_running_loop().time() - began < 40, "no request waited for its deadline"
        assert (server.plane.root / "apiserver-0.log").read_text() == log
