"""Connections of the HTTP server: keep-alive, pipelining, unread bodies, bad requests, clients that leave."""

import asyncio
import contextlib
import time
import weakref
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from aiohttp import web

from actors.apiserver.http.connection import unread
from actors.apiserver.http.connection.connection import Connections, RequestHandler
from actors.apiserver.http.connection.responses import LongResponse, Reply, Response, indented

GET = b"GET /%s HTTP/1.1\r\nHost: x\r\n\r\n"


@contextlib.asynccontextmanager
async def client(
    root: Path, handler: RequestHandler
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    server = Connections(handler, handler_cancellation=True, access_log=None, max_line_size=1000)
    runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=1.0)
    await runner.setup()
    await web.UnixSite(runner, root / "s").start()
    reader, writer = await asyncio.open_unix_connection(root / "s")
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        await runner.cleanup()


async def path_of(request: web.BaseRequest) -> Reply:
    return Reply(request.path.encode(), media_type="text/plain")


async def answer(reader: asyncio.StreamReader, empty: bool = False) -> tuple[bytes, bytes]:
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 15)
    size = int(head.partition(b"Content-Length: ")[2].partition(b"\r")[0])
    return head, b"" if empty else await asyncio.wait_for(reader.readexactly(size), 15)


async def test_requests_sent_at_once_are_answered_in_order(tmp_path: Path) -> None:
    async def handler(request: web.BaseRequest) -> Response:
        await asyncio.sleep(0)
        return await path_of(request)

    async with client(tmp_path, handler) as (reader, writer):
        writer.write(b"".join(GET % b"%d" % number for number in range(50)))
        assert [(await answer(reader))[1] for _ in range(50)] == [b"/%d" % number for number in range(50)]


@pytest.mark.parametrize("body", [b"x" * 10, b"x" * 2_000_000])
async def test_a_body_that_nobody_reads_does_not_stand_in_the_way(tmp_path: Path, body: bytes) -> None:
    async with client(tmp_path, path_of) as (reader, writer):
        writer.write(b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body + GET % b"b")
        assert [(await answer(reader))[1] for _ in range(2)] == [b"/a", b"/b"]


async def test_head_has_a_length_and_no_body_and_http_1_0_gets_keep_alive(tmp_path: Path) -> None:
    async with client(tmp_path, path_of) as (reader, writer):
        writer.write(b"HEAD /abc HTTP/1.1\r\nHost: x\r\n\r\n" + GET % b"b")
        head, _ = await answer(reader, empty=True)
        assert b"Content-Length: 4\r\n" in head
        assert (await answer(reader))[1] == b"/b"
        writer.write(b"GET /old HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        assert b"Connection: keep-alive\r\n" in (await answer(reader))[0]
        writer.write(b"GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert b"Connection: close\r\n" in (await answer(reader))[0]
        assert await asyncio.wait_for(reader.read(), 15) == b""


async def test_not_modified_has_no_length_and_is_followed_by_the_next_answer(tmp_path: Path) -> None:
    async def handler(request: web.BaseRequest) -> Response:
        return Reply(b"", 304) if request.path == "/known" else await path_of(request)

    async with client(tmp_path, handler) as (reader, writer):
        writer.write(GET % b"known" + GET % b"a")
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 15)
        assert head.startswith(b"HTTP/1.1 304 ")
        assert b"Content-Length" not in head
        assert (await answer(reader))[1] == b"/a"


@pytest.mark.parametrize("bad", [b"\x16\x03\x01 nonsense\r\n\r\n", GET % (b"x" * 2000)])
async def test_what_is_no_request_is_answered_and_the_connection_closed(tmp_path: Path, bad: bytes) -> None:
    async with client(tmp_path, path_of) as (reader, writer):
        writer.write(bad)
        assert (await answer(reader))[0].startswith(b"HTTP/1.0 400 ")
        assert await asyncio.wait_for(reader.read(), 15) == b""


async def test_who_leaves_is_waited_for_no_longer(tmp_path: Path) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def handler(request: web.BaseRequest) -> Response:
        began.set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()
        raise AssertionError("nobody is there")

    async with client(tmp_path, handler) as (_, writer):
        writer.write(GET % b"a")
        await asyncio.wait_for(began.wait(), 15)
        writer.transport.abort()
        await asyncio.wait_for(ended.wait(), 15)


async def test_a_fault_of_ours_is_answered_and_ends_the_connection(tmp_path: Path) -> None:
    async def handler(request: web.BaseRequest) -> Response:
        raise KeyError("a bug")

    async with client(tmp_path, handler) as (reader, writer):
        writer.write(GET % b"a")
        assert b" 500 " in (await answer(reader))[0]
        assert await asyncio.wait_for(reader.read(), 15) == b""


async def test_a_wish_to_upgrade_that_is_not_granted_leaves_what_came_behind_it(tmp_path: Path) -> None:
    async with client(tmp_path, path_of) as (reader, writer):
        writer.write(b"GET /up HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n" + GET % b"b")
        assert [(await answer(reader))[1] for _ in range(2)] == [b"/up", b"/b"]


async def test_answers_do_not_name_the_server_software(tmp_path: Path) -> None:
    async def handler(request: web.BaseRequest) -> Response:
        if request.path == "/bug":
            raise KeyError("a bug")
        return await path_of(request) if request.path == "/whole" else web.Response(body=b"stream")

    async with client(tmp_path, handler) as (reader, writer):
        for path in (b"whole", b"stream", b"bug"):
            writer.write(GET % path)
            head, _ = await answer(reader)
            assert b"\r\nDate: " in head
            assert b"Server" not in head.partition(b"\r\n")[2]


async def test_a_header_of_several_lines_is_not_sent(tmp_path: Path) -> None:
    async def handler(request: web.BaseRequest) -> Response:
        return Reply(b"", headers={"X": "a\r\nY: b"})

    async with client(tmp_path, handler) as (reader, writer):
        writer.write(GET % b"a")
        assert await asyncio.wait_for(reader.read(), 15) == b""


BODY = b"x" * 4_000_000


class _Parts(list[bytes]):
    """A list that can be referred to weakly."""


@contextlib.asynccontextmanager
async def unread_answer(
    root: Path, monkeypatch: pytest.MonkeyPatch, made: Callable[[], Response]
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.Event, asyncio.Event]]:
    """A request for `made`. The events: its seats are given back, its task has ended."""
    monkeypatch.setattr(unread, "SEAT_S", 0.05)
    monkeypatch.setattr(unread, "PROGRESS_S", 1.0)
    seat, ended = asyncio.Event(), asyncio.Event()

    async def handler(request: web.BaseRequest) -> Response:
        unread.give_back.set(seat.set)
        task = asyncio.current_task()
        assert task is not None
        task.add_done_callback(lambda _: ended.set())
        return made()

    async with client(root, handler) as (reader, writer), asyncio.timeout(60):
        writer.write(GET % b"a")
        yield reader, seat, ended


async def test_unread_answer_gives_its_seats_back_and_loses_its_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list that nobody read held its seats for as long as the client liked."""
    parts = iter([BODY] * 3)
    async with unread_answer(tmp_path, monkeypatch, lambda: Reply(b"[", rest=parts).response()) as (
        reader,
        seat,
        ended,
    ):
        await seat.wait()
        assert not ended.is_set()
        assert next(parts) == BODY, "seats are given back before the rest is made"
        await ended.wait()
        with contextlib.suppress(ConnectionResetError):
            while await reader.read(1 << 20):
                pass


async def test_unread_short_answers_give_their_seats_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with unread_answer(tmp_path, monkeypatch, lambda: Reply(BODY)) as (_, seat, ended):
        await seat.wait()
        assert not ended.is_set()
        await ended.wait()


async def test_answer_that_is_made_gives_its_seats_back_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with unread_answer(tmp_path, monkeypatch, lambda: Reply(BODY).response()) as (_, seat, ended):
        monkeypatch.setattr(unread, "SEAT_S", 3600.0)
        await seat.wait()
        assert not ended.is_set()


async def test_answer_that_was_written_holds_no_memory(tmp_path: Path) -> None:
    """The response itself is in a cycle, which is collected after hundreds of other answers."""
    made: list[tuple[Response, weakref.ref[_Parts]]] = []

    async def handler(request: web.BaseRequest) -> Response:
        parts = _Parts([b"x"])
        made.append((LongResponse(parts, 200, {}), weakref.ref(parts)))
        return made[0][0]

    async with client(tmp_path, handler) as (reader, writer):
        writer.write(GET % b"a")
        await reader.readuntil(b"\r\n0\r\n\r\n")
        assert [parts() for _, parts in made] == [None]


async def test_client_that_reads_slowly_gets_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with unread_answer(tmp_path, monkeypatch, lambda: Reply(BODY).response()) as (reader, _, _):
        began, size = time.monotonic(), 0
        while size < len(BODY):
            await asyncio.sleep(0.1)
            size += len(await reader.readexactly(100_000))
        assert time.monotonic() - began > 2 * unread.PROGRESS_S


@pytest.mark.parametrize(("depth", "values", "lines"), [(190, 60_000, 1), (20, 10_000, 10_040), (190, 1, 381)])
def test_answer_of_many_values_is_indented_unless_they_lie_deep(depth: int, values: int, lines: int) -> None:
    """120 kB became 24 MB, which held the event loop for 0.1 s."""
    body = b"[" * depth + b",".join([b"0"] * values) + b"]" * depth
    made = indented(Reply(body))
    assert isinstance(made, Reply)
    assert len(made.body.splitlines()) == lines


@pytest.mark.parametrize(("opens", "value", "ends", "lines"), [
    (rb'["]\\",' * 190, b"0", rb',"\"["]' * 190, 1),
    (b"[", b'"{"', b"]", 10_002),
])  # fmt: skip
def test_brackets_in_texts_are_no_depth(opens: bytes, value: bytes, ends: bytes, lines: int) -> None:
    """With those of its texts, a deep answer of 130 kB seemed flat, and a flat one seemed deep."""
    made = indented(Reply(opens + b",".join([value] * 10_000) + ends))
    assert isinstance(made, Reply)
    assert len(made.body.splitlines()) == lines
