"""Two websockets joined: what one receives the other sends, message by message, no faster than it is taken."""

import asyncio
from collections.abc import Callable

import aiohttp
from aiohttp import web

from protocols.streams.spdy.upgrade import Spdy

Socket = web.WebSocketResponse | aiohttp.ClientWebSocketResponse | Spdy

_GOING = aiohttp.WSCloseCode.GOING_AWAY.value
_TELLABLE = frozenset(code.value for code in aiohttp.WSCloseCode) - {aiohttp.WSCloseCode.ABNORMAL_CLOSURE.value}


async def join(left: Socket, right: Socket, passes: Callable[[bytes], bool] | None = None) -> None:
    """Until one of them ends; the other is closed with the same code. `passes`: which messages reach `right`."""
    ways = [asyncio.ensure_future(_copy(left, right, passes)), asyncio.ensure_future(_copy(right, left))]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        code = next((end.close_code for end in (left, right) if end.close_code in _TELLABLE), _GOING)
        for end in (left, right):
            await end.close(code=code or _GOING)


async def _copy(source: Socket, sink: Socket, passes: Callable[[bytes], bool] | None = None) -> None:
    while True:
        message = await source.receive()
        if message.type is aiohttp.WSMsgType.BINARY:
            if passes is None or passes(message.data):
                await sink.send_bytes(message.data)
        elif message.type is aiohttp.WSMsgType.TEXT:
            await sink.send_str(message.data)
        else:
            return
