"""Port-forward of the embedded runtime: what a client can make it hold."""

import asyncio
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from actors.runtime.streaming import port_forward
from actors.runtime.streaming.port_forward import HELD, Forwarding
from protocols.streams import spdy_frames as frames
from protocols.streams.spdy_frames import FrameReader, HeaderWriter
from tests.support.waiting import until_true

CHUNK = bytes(1 << 20)


class Client:
    """Messages are yielded as they are queued; what the runtime sends is retained."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[bytes] = asyncio.Queue()
        self.received: list[bytes] = []
        self._pack = HeaderWriter()

    async def __aiter__(self) -> AsyncIterator[aiohttp.WSMessage]:
        while data := await self.messages.get():
            yield aiohttp.WSMessage(aiohttp.WSMsgType.BINARY, data, None)

    async def send_bytes(self, data: bytes) -> None:
        self.received.append(data)

    async def close(self, **_: Any) -> None:
        """Do nothing."""

    def opening(self, stream: int, kind: str, request: str, port: int = 1) -> bytes:
        headers = {"streamtype": kind, "port": str(port), "requestid": request}
        return frames.pack_control(frames.SYN_STREAM, stream, 0, rest=b"\0\0" + self._pack.pack(headers))

    def resets(self) -> list[int]:
        sent = FrameReader().feed(b"".join(self.received))
        return [frames.number(frame) for frame in sent if frame.kind == frames.RST_STREAM]


async def turns() -> None:
    """Let the loop turn until all that is queued is handled: 64 turns for each MiB."""
    for _ in range(10_000):
        await asyncio.sleep(0)


@pytest.mark.parametrize("kind", ["data", "error"])
async def test_stream_that_is_reset_alone_leaves_nothing(kind: str) -> None:
    client = Client()
    forwarding = Forwarding(client, frozenset)  # type: ignore[arg-type]
    tracemalloc.start()
    for n in range(2_000):
        stream = 2 * n + 1
        opening = client.opening(stream, kind, f"{n:04d}" + "x" * 1_000)
        client.messages.put_nowait(opening + frames.pack_control(frames.RST_STREAM, stream, 5))
    client.messages.put_nowait(b"")
    before, _ = tracemalloc.get_traced_memory()
    await forwarding.run()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 500_000
    assert client.resets() == []


async def test_second_stream_of_a_kind_is_reset() -> None:
    client = Client()
    client.messages.put_nowait(client.opening(1, "data", "a") + client.opening(3, "data", "a"))
    client.messages.put_nowait(b"")
    await Forwarding(client, frozenset).run()  # type: ignore[arg-type]
    assert client.resets() == [3]


@pytest.mark.parametrize("port", [0, 65_536, int("9" * 700)])
async def test_stream_for_a_port_that_is_none_is_reset(port: int) -> None:
    client = Client()
    client.messages.put_nowait(client.opening(1, "data", "a", port))
    client.messages.put_nowait(b"")
    await Forwarding(client, frozenset).run()  # type: ignore[arg-type]
    assert client.resets() == [1]


async def test_port_that_listens_on_ipv6_alone_is_reached() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"six")
        writer.close()

    client = Client()
    async with await asyncio.start_server(answer, "::1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        client.messages.put_nowait(client.opening(1, "data", "a", port) + client.opening(3, "error", "a", port))
        running = asyncio.create_task(Forwarding(client, frozenset).run())  # type: ignore[arg-type]
        await until_true(lambda: len(client.received) == 5)
        client.messages.put_nowait(b"")
        await running
    assert frames.pack_data(1, b"six") in client.received


async def test_chunks_of_all_streams_wait_within_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams without their pair have no port yet. Each that ends frees what waited for it."""
    monkeypatch.setattr(port_forward, "HELD", 4 << 20)
    client = Client()
    forwarding = Forwarding(client, frozenset)  # type: ignore[arg-type]
    opened = [client.opening(2 * n + 1, "data", str(n)) for n in range(40)]
    client.messages.put_nowait(b"".join(opened))
    for n in range(40):
        client.messages.put_nowait(frames.pack_data(2 * n + 1, CHUNK))
    running = asyncio.create_task(forwarding.run())
    await turns()
    assert forwarding._held == 5 << 20
    for pair in list(forwarding._pairs.values()):
        forwarding._drop(pair)
    await turns()
    assert client.messages.empty()
    assert forwarding._held <= len(CHUNK)
    client.messages.put_nowait(b"")
    await running
    assert HELD == 16 << 20
