"""Ends of watches: a client that leaves is noticed, a connection whose watch is over serves the next; long answers."""

import asyncio
import time

from tests.support.apiserver_plane import Plane

PATH = "/api/v1/namespaces/default/configmaps"
OPEN = 'apiserver_longrunning_requests{component="apiserver",group="",resource="configmaps"'


async def open_watches(plane: Plane) -> float:
    text = await plane.metrics("apiserver-0")
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(OPEN))


async def until_open(plane: Plane, count: int) -> None:
    deadline = time.monotonic() + 60
    while (found := await open_watches(plane)) != count:
        assert time.monotonic() < deadline, f"there are still {found} watches, not {count}"
        await asyncio.sleep(0.05)


async def answer_of(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Head and body of a chunked answer."""
    head, body = await reader.readuntil(b"\r\n\r\n"), b""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readexactly(2)
    return head, body


async def test_a_connection_whose_watch_is_over_serves_the_next_request(plane: Plane) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", plane.port, ssl=plane.tls())
    async with asyncio.timeout(60):
        for _ in range(2):
            writer.write(f"GET {PATH}?watch=1&timeoutSeconds=1 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            head, _ = await answer_of(reader)
            assert b"Content-Type: application/json\r\n" in head
        writer.write(f"GET {PATH}/none HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        assert b"HTTP/1.1 404" in await reader.read()
    writer.transport.abort()
    await until_open(plane, 0)


async def test_long_answers_are_compressed_for_those_who_ask(plane: Plane) -> None:
    data = {"fill": "0123456789" * 20_000}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "long"}, "data": data}
    async with plane.client() as session:
        async with session.post(PATH, json=body) as answer:
            assert answer.status == 201
        for path in (PATH, f"{PATH}/long"):
            async with session.get(path, headers={"Accept-Encoding": "identity"}) as answer:
                plain = await answer.read()
                assert "Content-Encoding" not in answer.headers
            async with session.get(path, headers={"Accept-Encoding": "gzip"}) as answer:
                assert answer.headers["Content-Encoding"] == "gzip"
                assert await answer.read() == plain
        async with session.get(f"{PATH}?watch=1", headers={"Accept-Encoding": "gzip"}) as answer:
            assert "Content-Encoding" not in answer.headers
        async with session.delete(f"{PATH}/long") as answer:
            assert answer.status == 200


async def test_http_1_0_gets_its_events_without_chunks(plane: Plane) -> None:
    async with plane.client() as session, asyncio.timeout(60):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "old"}}
        async with session.post(PATH, json=body) as answer:
            assert answer.status == 201
        async with session.get(PATH) as answer:
            assert answer.status == 200  # from now on whatever is there shows it
        for seconds in (1, -1):
            reader, writer = await asyncio.open_connection("127.0.0.1", plane.port, ssl=plane.tls())
            query = f"watch=1&resourceVersion=0&timeoutSeconds={seconds}"
            writer.write(f"GET {PATH}?{query} HTTP/1.0\r\n\r\n".encode())
            assert b"chunked" not in await reader.readuntil(b"\r\n\r\n")
            assert (await reader.readline()).startswith(b'{"type":"ADDED"')
            assert await reader.read() == b""
            writer.transport.abort()


async def test_a_client_that_leaves_an_idle_watch_is_noticed(plane: Plane) -> None:
    async with plane.client() as session:
        query = {"watch": "true", "sendInitialEvents": "false", "resourceVersionMatch": "NotOlderThan"}
        staying = await session.get(PATH, params=query)
        leaving = await session.get(PATH, params=query)
        await until_open(plane, 2)
        leaving.close()
        await until_open(plane, 1)
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
        async with session.post(PATH, json=body) as answer:
            assert answer.status == 201
        assert b'"ADDED"' in await asyncio.wait_for(staying.content.readline(), 60)
        staying.close()
