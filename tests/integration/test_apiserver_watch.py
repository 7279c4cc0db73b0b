"""Watches over real processes: resume, kill -9 on each side, bookmarks at the end, 410 inside the stream."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import aiohttp
import pytest

from protocols.kube.protobuf import decode_object
from protocols.wire.protobuf import fields
from tests.support.apiserver_plane import Plane, running_plane
from tests.support.engine import ETCD, OURS
from tests.support.waiting import until_async

JSON, PROTOBUF = "application/json", "application/vnd.kubernetes.protobuf"
CONFIGMAPS, SECRETS = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/secrets"


@pytest.fixture(scope="module", params=[OURS, ETCD])
def of_all(request: pytest.FixtureRequest) -> Iterator[Plane]:
    """An API server on each store."""
    with running_plane(store=request.param) as started:
        yield started


@pytest.fixture
def plane(of_all: Plane) -> Plane:
    """Without an object of the test before."""

    async def clear() -> None:
        async with of_all.client() as session:
            for path in (CONFIGMAPS, SECRETS):
                async with session.delete(path) as answer:
                    assert answer.status == 200, await answer.text()

    asyncio.run(clear())
    return of_all


def configmap(name: str, **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {}}


async def create(session: aiohttp.ClientSession, name: str, **labels: str) -> int:
    async with session.post(CONFIGMAPS, json=configmap(name, **labels)) as answer:
        body = await answer.json()
        assert answer.status == 201, body
        return int(body["metadata"]["resourceVersion"])


async def patch(session: aiohttp.ClientSession, name: str, change: dict[str, Any]) -> int:
    headers = {"Content-Type": "application/merge-patch+json"}
    async with session.patch(f"{CONFIGMAPS}/{name}", data=json.dumps(change), headers=headers) as answer:
        body = await answer.json()
        assert answer.status == 200, body
        return int(body["metadata"]["resourceVersion"])


async def delete(session: aiohttp.ClientSession, name: str) -> None:
    async with session.delete(f"{CONFIGMAPS}/{name}") as answer:
        assert answer.status == 200, await answer.text()


class Events:
    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.answer = answer

    async def next(self, timeout: float = 60.0) -> tuple[str, dict[str, Any]]:
        line = await asyncio.wait_for(self.answer.content.readline(), timeout)
        if not line:
            return "", {}
        event = json.loads(line)
        return event["type"], event["object"]

    async def names(self, count: int) -> list[tuple[str, str]]:
        return [(kind, obj["metadata"]["name"]) for kind, obj in [await self.next() for _ in range(count)]]


@asynccontextmanager
async def watching(session: aiohttp.ClientSession, **query: str) -> AsyncIterator[Events]:
    async with session.get(CONFIGMAPS, params={"watch": "true", **query}) as answer:
        assert answer.status == 200, await answer.text()
        yield Events(answer)


async def served(session: aiohttp.ClientSession, name: str) -> None:
    """From the server's own memory, which may be as old as a moment."""

    async def status() -> int:
        async with session.get(f"{CONFIGMAPS}/{name}", params={"resourceVersion": "0"}) as answer:
            return answer.status

    await until_async(f"{name} served", status, good=lambda found: found == 200)


async def version(session: aiohttp.ClientSession) -> str:
    async with session.get(CONFIGMAPS) as answer:
        return str((await answer.json())["metadata"]["resourceVersion"])


async def test_changes_arrive_in_order_with_their_revisions(plane: Plane) -> None:
    async with plane.client() as session, watching(session, resourceVersion=await version(session)) as events:
        made = await create(session, "a")
        changed = await patch(session, "a", {"data": {"k": "v"}})
        await delete(session, "a")
        seen = [await events.next() for _ in range(3)]
    assert [kind for kind, _ in seen] == ["ADDED", "MODIFIED", "DELETED"]
    versions = [int(obj["metadata"]["resourceVersion"]) for _, obj in seen]
    assert versions[:2] == [made, changed]
    assert versions[2] > changed
    assert seen[2][1]["data"] == {"k": "v"}


async def test_objects_enter_and_leave_a_selector(plane: Plane) -> None:
    async with plane.client() as session:
        start = await version(session)
        async with watching(session, resourceVersion=start, labelSelector="on=1") as events:
            await create(session, "a", on="0")
            await patch(session, "a", {"metadata": {"labels": {"on": "1"}}})
            await patch(session, "a", {"data": {"x": "1"}})
            left = await patch(session, "a", {"metadata": {"labels": {"on": "0"}}})
            seen = [await events.next() for _ in range(3)]
    assert [kind for kind, _ in seen] == ["ADDED", "MODIFIED", "DELETED"]
    assert seen[2][1]["metadata"]["labels"] == {"on": "1"}
    assert seen[2][1]["metadata"]["resourceVersion"] == str(left)


async def test_a_path_below_watch_is_a_watch_of_all_or_of_one(plane: Plane) -> None:
    async with plane.client() as session:
        start = await version(session)
        for name in ("a", "b"):
            await create(session, name)
        path = CONFIGMAPS.replace("/v1/", "/v1/watch/")
        for url, wanted in ((path, ["a", "b"]), (f"{path}/b", ["b"])):
            async with session.get(url, params={"resourceVersion": start}) as answer:
                assert answer.status == 200, await answer.text()
                events = Events(answer)
                assert await events.names(len(wanted)) == [("ADDED", name) for name in wanted]
        for name in ("a", "b"):
            await delete(session, name)


async def test_initial_events_end_with_the_annotated_bookmark(plane: Plane) -> None:
    async with plane.client() as session:
        await create(session, "b")
        await create(session, "a")
        options = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        async with watching(session, allowWatchBookmarks="true", **options) as events:
            assert await events.names(2) == [("ADDED", "a"), ("ADDED", "b")]
            kind, bookmark = await events.next()
            assert kind == "BOOKMARK"
            assert (bookmark["kind"], bookmark["apiVersion"]) == ("ConfigMap", "v1")
            assert bookmark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
            await create(session, "c")
            assert await events.names(1) == [("ADDED", "c")]


async def test_killed_apiserver_is_resumed_without_a_gap(plane: Plane) -> None:
    async with plane.client() as session:
        start = await create(session, "a")
        async with watching(session, resourceVersion=str(start)) as events:
            seen = await create(session, "b")
            assert await events.names(1) == [("ADDED", "b")]
            await create(session, "c")
        plane.kill("apiserver-0", signal.SIGKILL)
    await asyncio.to_thread(plane.spawn, "apiserver-0")
    await asyncio.to_thread(plane.wait_ready)
    async with plane.client() as session:
        await delete(session, "b")
        async with watching(session, resourceVersion=str(seen)) as events:
            assert await events.names(2) == [("ADDED", "c"), ("DELETED", "b")]


async def test_sigterm_gives_a_last_bookmark_and_a_clean_end(plane: Plane) -> None:
    async with plane.client() as session:
        start = await create(session, "a")
        async with watching(session, resourceVersion=str(start), allowWatchBookmarks="true") as events:
            async with session.post(SECRETS, json=secret()) as answer:
                other = int((await answer.json())["metadata"]["resourceVersion"])
            code = asyncio.create_task(asyncio.to_thread(plane.kill, "apiserver-0", signal.SIGTERM))
            kind, bookmark = await events.next()
            assert kind == "BOOKMARK"
            assert int(bookmark["metadata"]["resourceVersion"]) >= other
            assert await events.next() == ("", {})
            assert await code == 0
    await asyncio.to_thread(plane.spawn, "apiserver-0")
    await asyncio.to_thread(plane.wait_ready)
    counted = 'nodeplane_shutdown_bookmarks_total{group="",resource="configmaps",result="sent"} '
    lines = (await plane.metrics("apiserver-0")).splitlines()
    assert [float(line.removeprefix(counted)) >= 1 for line in lines if line.startswith(counted)] == [True]


def secret() -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "b"}}


async def test_timeout_ends_cleanly_after_a_bookmark(plane: Plane) -> None:
    async with plane.client() as session:
        start = await create(session, "a")
        async with session.post(SECRETS, json=secret()) as answer:
            assert answer.status == 201
        await version(session)  # from now on the server knows that there is something newer
        query = {"resourceVersion": str(start), "allowWatchBookmarks": "true", "timeoutSeconds": "1"}
        async with watching(session, **query) as events:
            assert (await events.next())[0] == "BOOKMARK"
            assert await events.next() == ("", {})


async def test_too_old_is_an_error_inside_the_stream_and_the_future_is_accepted(plane: Plane) -> None:
    async with plane.client() as session:
        future = await create(session, "a") + 2
        async with watching(session, resourceVersion=str(future)) as events:
            made = {name: await create(session, name) for name in "bcd"}
            first = next(name for name, rv in made.items() if rv > future)
            assert await events.names(1) == [("ADDED", first)]
        query = {"resourceVersion": "999999", "resourceVersionMatch": "NotOlderThan"}
        (code, listed), (kind, watched) = await asyncio.gather(
            listed_at(session, query), first_event(session, {**query, "sendInitialEvents": "true"})
        )
        assert (code, kind) == (504, "ERROR")
        cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
        for status in (listed, watched):
            assert status["message"].startswith("Timeout: Too large resource version: 999999, current: ")
            assert (status["code"], status["details"]) == (504, {"causes": [cause], "retryAfterSeconds": 1})


async def listed_at(session: aiohttp.ClientSession, query: dict[str, str]) -> tuple[int, dict[str, Any]]:
    async with session.get(CONFIGMAPS, params=query) as answer:
        return answer.status, await answer.json()


async def first_event(session: aiohttp.ClientSession, query: dict[str, str]) -> tuple[str, dict[str, Any]]:
    async with watching(session, **query) as events:
        return await events.next()


@pytest.mark.parametrize("of_all", [OURS], indirect=True)
async def test_a_watcher_that_does_not_read_is_ended_and_delays_nobody(plane: Plane) -> None:
    async with plane.client() as quick:
        start, before = await create(quick, "a"), await ended_slow(plane)
        reader, writer = await open_raw_watch(plane, start)
        async with watching(quick, resourceVersion=str(start)) as events:
            for number in range(200):
                changed = await patch(quick, "a", {"data": {"x": f"{number:05}" * 80_000}})
                kind, seen = await events.next()
                assert (kind, seen["metadata"]["resourceVersion"]) == ("MODIFIED", str(changed))
                if await ended_slow(plane) > before:
                    break
            else:
                raise AssertionError("the watcher that does not read was never ended")
        writer.transport.abort()
        del reader


async def open_raw_watch(plane: Plane, start: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A watch whose answer nobody reads; a small buffer here makes the server feel it soon."""
    reader, writer = await asyncio.open_connection("127.0.0.1", plane.port, ssl=plane.tls(), limit=1024)
    path = f"{CONFIGMAPS}?watch=true&resourceVersion={start}"
    writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    writer.transport.pause_reading()  # type: ignore[attr-defined]  # the stub names the write side only
    return reader, writer


async def ended_slow(plane: Plane) -> float:
    """Watches of configmaps ended for slowness."""
    name = 'apiserver_terminated_watchers_total{group="",resource="configmaps"} '
    lines = (await plane.metrics("apiserver-0")).splitlines()
    return next((float(line.removeprefix(name)) for line in lines if line.startswith(name)), 0.0)


@pytest.mark.parametrize("form", [JSON, PROTOBUF])
async def test_watch_over_a_websocket_sends_each_event_as_a_message(plane: Plane, form: str) -> None:
    async with plane.client() as session:
        for name in "ab":
            await create(session, name)
        query = {"watch": "1", "resourceVersion": "0", "labelSelector": "!hidden"}
        connected = partial(session.ws_connect, CONFIGMAPS, headers={"Accept": form}, protocols=("any",))
        async with connected(params=query) as socket:
            seen = [await message_of(socket, form) for _ in "ab"]
            await create(session, "c")
            await socket.send_str("dropped")
            await delete(session, "a")
            seen += [await message_of(socket, form) for _ in "ca"]
            assert socket.protocol == "any"
        assert seen == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c"), ("DELETED", "a")]
        brief = {"watch": "1", "resourceVersion": await version(session), "timeoutSeconds": "1"}
        async with connected(params=brief) as socket:
            assert (await asyncio.wait_for(socket.receive(), 30)).type is aiohttp.WSMsgType.CLOSE


async def message_of(socket: aiohttp.ClientWebSocketResponse, form: str) -> tuple[str, str]:
    event: Any
    if form == JSON:
        event = json.loads(await asyncio.wait_for(socket.receive_str(), 30))
        return event["type"], event["object"]["metadata"]["name"]
    event = dict(fields(await asyncio.wait_for(socket.receive_bytes(), 30)))
    whole: Any = dict(fields(event[2]))[1]
    return event[1].decode(), decode_object(whole)["metadata"]["name"]


async def test_watch_over_a_websocket_reports_errors_and_ends_with_its_client(plane: Plane) -> None:
    async with plane.client() as session:
        ahead = "sendInitialEvents=1&resourceVersionMatch=NotOlderThan&resourceVersion=999999999"
        async with session.ws_connect(f"{CONFIGMAPS}?watch=1&{ahead}") as socket:
            event = json.loads(await asyncio.wait_for(socket.receive_str(), 30))
            assert (event["type"], event["object"]["code"]) == ("ERROR", 504)
        async with session.ws_connect(f"{CONFIGMAPS}?watch=1"):
            assert 'verb="WATCH"' in running(await plane.metrics("apiserver-0"))
        await until_async("the watch ends", lambda: plane.metrics("apiserver-0"), good=lambda page: not running(page))
        async with session.get(f"{CONFIGMAPS}?watch=1", headers={"Upgrade": "websocket"}) as refused:
            assert refused.status == 400
        async with session.head(f"{CONFIGMAPS}?watch=1") as refused:  # what is sent would be taken for the next answer
            assert refused.status == 405
    assert not plane.tracebacks()


def running(page: str) -> str:
    """The lines of open watches."""
    lines = [line for line in page.splitlines() if line.startswith("apiserver_longrunning_requests{")]
    return "\n".join(line for line in lines if float(line.rpartition(" ")[2]))
