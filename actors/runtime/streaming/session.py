"""One websocket of exec or attach: channels in, channels out, a Status at the end."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import aiohttp

from actors.runtime.streaming.descriptors import Reader
from protocols.streams.channels import CLOSE, ERROR, RESIZE, STDIN, Size, read_size
from protocols.streams.join import Socket


class Sink(Protocol):
    """What a client's messages act on."""

    async def write(self, data: bytes) -> None: ...

    async def end_input(self) -> None: ...

    def resize(self, size: Size) -> None: ...


async def take_input(socket: Socket, sink: Sink) -> None:
    """Until the client goes away. A sink that is full holds the client back."""
    async for message in socket:
        if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
            continue
        channel, data = message.data[0], message.data[1:]
        if channel == STDIN and data:
            await sink.write(data)
        elif channel == RESIZE and (size := read_size(data)) is not None:
            sink.resize(size)
        elif channel == CLOSE and data[:1] == bytes([STDIN]):
            await sink.end_input()


async def give_output(socket: Socket, channel: int, reader: Reader) -> None:
    """To the reader's end. A client that does not read holds the writer back."""
    prefix = bytes([channel])
    async for data in reader.chunks():
        await socket.send_bytes(prefix + data)


async def converse(
    socket: Socket,
    sink: Sink,
    readers: dict[int, Reader],
    outcome: Callable[[], Awaitable[bytes]],
) -> None:
    """Both ways at once, until `outcome` gives the final Status or the client goes away; leaves nothing behind."""
    client = asyncio.ensure_future(take_input(socket, sink))
    outputs = [asyncio.ensure_future(give_output(socket, channel, reader)) for channel, reader in readers.items()]
    end = asyncio.ensure_future(outcome())
    try:
        await asyncio.wait((client, end), return_when=asyncio.FIRST_COMPLETED)
        if not end.done():
            return
        for reader in readers.values():
            reader.last_call()
        await asyncio.wait((client, asyncio.gather(*outputs)), return_when=asyncio.FIRST_COMPLETED)
        if not client.done():
            await socket.send_bytes(bytes([ERROR]) + end.result())
    except ConnectionError:
        return
    finally:
        tasks = [client, end, *outputs]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
