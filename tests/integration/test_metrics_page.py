"""The metrics page beside clients that hold their connections: whoever scrapes gets the page."""

import asyncio
import gzip
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from supervisor.report import http
from supervisor.report.http import (
    ANSWERING,
    MAX_CONNECTIONS,
    MAX_CONNECTIONS_OF_PEER,
    WRITING,
    Connections,
    MetricsHttp,
    ReportConnection,
)

PAGE = "x 1\n" * 2_000_000
"""More than the socket's buffers take."""


@asynccontextmanager
async def page_served(tmp_path: Path, made: list[int]) -> AsyncIterator[int]:
    async def page() -> str:
        made.append(1)
        await asyncio.sleep(0.05)
        return PAGE

    server = MetricsHttp(page, dict, tmp_path / "lock")
    await server.start()
    yield server.port
    await server.close()


async def scrape(port: int) -> int:
    def ask() -> int:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            return len(answer.read())

    return await asyncio.to_thread(ask)


@pytest.mark.parametrize(
    "sent", [b"", b"GET /metr", b"GET /metrics HTTP/1.1\r\nA: b\r\n", b"GET /metrics HTTP/1.1\r\n\r\n"]
)
async def test_page_is_served_beside_clients_that_hold_connections(tmp_path: Path, sent: bytes) -> None:
    """Twice as many as there is room for: silent, with half a request, or not reading their answer."""
    async with page_served(tmp_path, []) as port:
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2 * MAX_CONNECTIONS)]
        for _, writer in held:
            writer.write(sent)
        await asyncio.sleep(0.1)
        assert [await scrape(port) for _ in range(3)] == [len(PAGE)] * 3
        for _, writer in held:
            writer.transport.abort()


async def test_page_is_compressed_for_clients_that_read_gzip(tmp_path: Path) -> None:
    def ask(port: int) -> tuple[str, bytes]:
        asked = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Accept-Encoding": "gzip"})
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return str(answer.headers["Content-Encoding"]), answer.read()

    async with page_served(tmp_path, []) as port:
        encoding, data = await asyncio.to_thread(ask, port)
    assert encoding == "gzip"
    assert len(data) < len(PAGE) / 10
    assert gzip.decompress(data).decode() == PAGE


async def test_page_is_made_once_for_all_who_ask_together(tmp_path: Path) -> None:
    made: list[int] = []

    async with page_served(tmp_path, made) as port:
        assert set(await asyncio.gather(*(scrape(port) for _ in range(8)))) == {len(PAGE)}

    assert len(made) < 8


async def test_silent_client_is_closed_at_the_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "HEADERS_S", 0.05)

    async with page_served(tmp_path, []) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await asyncio.wait_for(reader.read(), 30) == b""
        writer.close()


def test_other_addresses_find_room_beside_one_that_holds_all_it_may() -> None:
    connections, closed = Connections(), list[str]()

    def connection(peer: str) -> ReportConnection:
        return ReportConnection(peer, lambda: closed.append(peer))

    for _ in range(MAX_CONNECTIONS_OF_PEER + 5):
        assert connections.enter(connection("greedy"))
    assert closed == ["greedy"] * 5
    for number in range(MAX_CONNECTIONS):
        assert connections.enter(connection(f"other-{number % 8}"))
    assert set(closed) == {"greedy"} | set(closed[5:])
    assert closed.count("greedy") >= MAX_CONNECTIONS_OF_PEER - 4


def test_nobody_gives_way_while_all_answers_are_made() -> None:
    connections, closed = Connections(), list[int]()
    held = [ReportConnection(str(number), partial(closed.append, number)) for number in range(MAX_CONNECTIONS)]
    for each in held:
        assert connections.enter(each)
        each.phase = ANSWERING
    assert not connections.enter(ReportConnection("x", lambda: None))
    held[3].phase = WRITING
    assert connections.enter(ReportConnection("x", lambda: None))
    assert closed == [3]
