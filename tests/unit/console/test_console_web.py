"""The server of `nodeplane console --web`: who may use it, and what a hostile page can make of it."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from yarl import URL

from supervisor.base.errors import PortTaken
from supervisor.console.web import process as web_process
from supervisor.console.web import server as web_server
from supervisor.console.web.access import AccessVerdict, ConsoleAccess
from supervisor.console.web.server import FULL, MAX_MESSAGE, MAX_SESSIONS, WebConsole
from tests.support.waiting import until_async

HELLO = "import os, sys; os.write(1, b'__GANGLION__\\n' + b'D\\0\\0\\0\\5hello'); "
ECHO = (
    HELLO
    + """
while True:
    kind, size = os.read(0, 1), int.from_bytes(os.read(0, 4), "big")
    body = os.read(0, size)
    if not kind or b"quit" in body:
        break
    os.write(1, b"D" + (1 + len(body)).to_bytes(4, "big") + kind + body)
"""
)


@asynccontextmanager
async def serving(code: str = ECHO) -> AsyncIterator[tuple[WebConsole, aiohttp.ClientSession]]:
    server = WebConsole(["-c", code])
    await server.start()
    jar = aiohttp.CookieJar(unsafe=True)  # it holds cookies of addresses, too
    try:
        async with aiohttp.ClientSession(cookie_jar=jar) as session:
            yield server, session
    finally:
        await server.close()


def origin(server: WebConsole) -> str:
    url = URL(server.url)
    return f"http://{url.host}:{url.port}"


async def status(session: aiohttp.ClientSession, url: str, **headers: str) -> int:
    async with session.get(url, headers=headers, allow_redirects=False) as answer:
        return answer.status


async def test_token_becomes_a_cookie_that_scripts_and_other_sites_do_not_get() -> None:
    async with serving() as (server, session):
        async with session.get(server.url, allow_redirects=False) as answer:
            assert answer.status == 303
            assert answer.headers["Location"] == "/"
            cookie = answer.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert server.access.token not in cookie
        async with session.get(origin(server)) as answer:
            assert answer.status == 200
            assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            page = await answer.text()
        assert server.access.token not in page
        assert "http://" not in page.replace(origin(server), ""), "it would load something from elsewhere"


async def test_token_used_twice_is_refused() -> None:
    async with serving() as (server, session):
        assert await status(session, server.url) == 303
        async with aiohttp.ClientSession() as another:
            assert await status(another, server.url) == 401
        assert await status(session, server.url) == 401
        assert await status(session, origin(server)) == 200, "the first browser keeps its session"


@pytest.mark.parametrize("path", ["/", "/static/textual.js", "/static/nothing", "/ws"])
async def test_request_without_token_or_cookie_is_refused(path: str) -> None:
    async with serving() as (server, session):
        headers = {"Origin": origin(server)}
        assert await status(session, origin(server) + path, **headers) == 401
        assert await status(session, origin(server) + "/?token=wrong", **headers) == 401
        assert await status(session, server.url) == 303, "wrong ones do not spend the token"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "", "[::1]:{port}"]
)
async def test_request_for_another_host_is_refused(host: str) -> None:
    async with serving() as (server, session):
        named = host.format(port=URL(server.url).port)
        assert await status(session, server.url, Host=named) in (400, 403)
        assert await status(session, server.url) == 303, "it did not spend the token"
        assert await status(session, origin(server), Host=named) in (400, 403)


@pytest.mark.parametrize("foreign", ["http://evil.example", "null", "", "http://127.0.0.1:1", "https://{host}"])
async def test_socket_of_another_origin_is_refused(foreign: str) -> None:
    async with serving() as (server, session):
        await status(session, server.url)
        named = foreign.format(host=URL(server.url).authority)
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await session.ws_connect(origin(server) + "/ws", headers={"Origin": named} if named else {})
        assert refused.value.status == 403


async def test_socket_without_cookie_is_refused() -> None:
    async with serving() as (server, session):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await session.ws_connect(origin(server) + "/ws", headers={"Origin": origin(server)})
        assert refused.value.status == 401


async def test_socket_carries_keys_and_sizes_and_ignores_garbage() -> None:
    async with serving() as (server, session):
        await status(session, server.url)
        async with session.ws_connect(f"{origin(server)}/ws?width=x", headers={"Origin": origin(server)}) as socket:
            assert await socket.receive_bytes(timeout=30) == b"hello"
            for garbage in ("", "{}", "[]", "[1]", '["stdin", 5]', '["resize", null]', '["open_url"]', "nonsense"):
                await socket.send_str(garbage)
            await socket.send_str(json.dumps(["resize", {"width": 100000, "height": -5}]))
            assert b'"width": 500, "height": 10' in await socket.receive_bytes(timeout=30)
            await socket.send_str(json.dumps(["stdin", "k"]))
            assert await socket.receive_bytes(timeout=30) == b"Dk"
            await socket.send_str(json.dumps(["ping", "7"]))
            assert (await socket.receive_json(timeout=30)) == ["pong", "7"]


async def test_socket_with_a_huge_message_is_closed() -> None:
    async with serving() as (server, session):
        await status(session, server.url)
        async with session.ws_connect(origin(server) + "/ws", headers={"Origin": origin(server)}) as socket:
            await socket.send_str("x" * (MAX_MESSAGE + 1))
            async with asyncio.timeout(30):
                while (await socket.receive()).type is not aiohttp.WSMsgType.CLOSE:
                    pass


async def test_packets_that_would_open_pages_or_files_stay_here() -> None:
    code = (
        HELLO
        + """
body = b'{"type": "open_url", "url": "http://evil.example", "new_tab": true}'
os.write(1, b"M" + len(body).to_bytes(4, "big") + body + b"D" + (4).to_bytes(4, "big") + b"last")
sys.stdin.buffer.read()
"""
    )
    async with serving(code) as (server, session):
        await status(session, server.url)
        async with session.ws_connect(origin(server) + "/ws", headers={"Origin": origin(server)}) as socket:
            assert await socket.receive_bytes(timeout=30) == b"hello"
            assert await socket.receive_bytes(timeout=30) == b"last"


async def test_sessions_are_bounded_and_their_processes_end_with_them() -> None:
    async with serving() as (server, session):
        await status(session, server.url)
        open_sockets = [
            await session.ws_connect(origin(server) + "/ws", headers={"Origin": origin(server)})
            for _ in range(MAX_SESSIONS)
        ]
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await session.ws_connect(origin(server) + "/ws", headers={"Origin": origin(server)})
        assert refused.value.status == 429
        async with session.get(origin(server)) as page:
            assert (page.status, await page.text()) == (429, FULL)
        for socket in open_sockets:
            await socket.close()
        await until_async("all sessions end", lambda: server._sessions == 0, 30)


async def test_closed_server_leaves_no_console_that_does_not_quit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(web_server, "SHUTDOWN_S", 0.1)
    monkeypatch.setattr(web_process, "END_S", 0.5)
    pid = tmp_path / "pid"
    stubborn = f"{HELLO}open({str(pid)!r}, 'w').write(str(os.getpid())); import time; time.sleep(600)"
    async with serving(stubborn) as (server, session):
        await status(session, server.url)
        await session.ws_connect(origin(server) + "/ws", headers={"Origin": origin(server)})
        await until_async("the console runs", lambda: pid.exists() and pid.read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


async def test_request_that_is_no_http_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as (server, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", URL(server.url).port)
        writer.write(b"\xee\x07 what\r\n\r\n")
        assert b"400 Bad Request" in await reader.read()
        writer.close()
    assert not caplog.records


async def test_port_in_use_is_named() -> None:
    async with serving() as (server, _):
        port = URL(server.url).port or 0
        with pytest.raises(PortTaken, match=f"cannot listen on 127.0.0.1:{port}"):
            await WebConsole(["-c", ""], port).start()


def test_access_of_another_port_is_another_session() -> None:
    one, two = ConsoleAccess(1111), ConsoleAccess(2222)
    assert one.page("127.0.0.1:1111", one.token, {}) is AccessVerdict.WELCOME
    cookies = {one.cookie: one.session}
    assert one.page("localhost:1111", None, cookies) is AccessVerdict.ALLOWED
    assert two.page("localhost:2222", None, cookies) is AccessVerdict.UNKNOWN
    assert two.page("localhost:2222", None, {two.cookie: ""}) is AccessVerdict.UNKNOWN


@pytest.mark.parametrize("size", ["²", "9" * 5000, "41", "-7", ""])
async def test_size_of_letters_that_cannot_be_is_the_usual_one(size: str) -> None:
    async with serving() as (server, session):
        await status(session, server.url)
        assert await status(session, f"{origin(server)}/?fontsize={size}") == 200
