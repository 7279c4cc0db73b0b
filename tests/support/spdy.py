"""The opening end of a bare SPDY connection, as crictl is one: enough of it for exec and attach."""

import asyncio
from collections.abc import Callable
from urllib.parse import urlsplit

from protocols.streams import spdy_frames as frames
from protocols.streams.spdy_frames import FrameReader, HeaderWriter


class SpdyClient:
    """`streams`: what to open, in this order."""

    def __init__(self, *streams: str) -> None:
        self._numbers = {name: 2 * index + 1 for index, name in enumerate(streams)}
        self._names = {number: name for name, number in self._numbers.items()}
        self._pack = HeaderWriter()
        self._frames = FrameReader()
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter
        self.received = dict.fromkeys(streams, b"")

    async def open(self, url: str, *protocols: str) -> str:
        """The status line. Streams are opened when it says so."""
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._reader, self._writer = await asyncio.open_connection(parts.hostname, parts.port)
        offers = "".join(f"X-Stream-Protocol-Version: {protocol}\r\n" for protocol in protocols)
        fixed = "Host: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\n"
        self._writer.write(f"POST {parts.path} HTTP/1.1\r\n{fixed}{offers}\r\n".encode())
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        if " 101 " in head:
            for name, number in self._numbers.items():
                block = b"\0\0" + self._pack.pack({"streamtype": name})
                self._writer.write(frames.pack_control(frames.SYN_STREAM, number, 0, rest=block))
        return head.splitlines()[0]

    def say(self, name: str, data: bytes, fin: bool = False) -> None:
        self._writer.write(frames.pack_data(self._numbers[name], data, fin=fin))

    async def until_the_end(self) -> None:
        """Of the error stream, which is the last to end."""
        await self._read(lambda name, is_fin: is_fin and name == "error")

    async def until_received(self, name: str) -> None:
        """Wait for the first data of a stream."""
        await self._read(lambda _name, _is_fin: bool(self.received[name]))

    async def _read(self, is_enough: Callable[[str, bool], bool]) -> None:
        async with asyncio.timeout(60):
            while data := await self._reader.read(65536):
                for frame in self._frames.feed(data):
                    if frame.kind == 0:
                        name = self._names[frame.stream]
                        self.received[name] += frame.payload
                        if is_enough(name, frame.is_fin):
                            return

    def close(self) -> None:
        self._writer.close()
