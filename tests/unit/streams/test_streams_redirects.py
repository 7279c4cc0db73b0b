"""Sessions that follow no redirect: neither a request's nor a websocket handshake's."""

import aiohttp
import pytest
from aiohttp import web

from protocols.streams.connections import RedirectRefused, no_redirects


async def test_session_without_redirects_refuses_them_before_the_next_server_is_asked() -> None:
    asked: list[str] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(request.path)
        return web.Response(status=302, headers={"Location": "/elsewhere"})

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/here"
    async with aiohttp.ClientSession(trace_configs=[no_redirects()]) as session:
        with pytest.raises(RedirectRefused, match="it answers 302, and redirects are forbidden"):
            await session.get(url)
        with pytest.raises(RedirectRefused):
            await session.ws_connect(url)
    await runner.cleanup()
    assert asked == ["/here", "/here"]
