"""Heads of websocket frames in a stream that is cut anywhere."""

import asyncio
import itertools
import struct

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from hypothesis import given
from hypothesis import strategies as st

from protocols.streams.accepting import accept_websocket
from protocols.streams.masked import FrameHeads
from protocols.streams.turns import TURN, DialedSocket

HANDSHAKE = (
    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


def frame(content: bytes, masked: bool = True) -> bytes:
    """A frame whose content is the same with its mask: the key is zero."""
    length, mask = len(content), 0x80 if masked else 0
    if length < 126:
        head = bytes([0x82, mask | length])
    elif length < 65536:
        head = bytes([0x82, mask | 126]) + struct.pack(">H", length)
    else:
        head = bytes([0x82, mask | 127]) + struct.pack(">Q", length)
    return head + (bytes(4) if masked else b"") + content


def fed(stream: bytes, cuts: list[int]) -> bool:
    heads, places = FrameHeads(), sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    return all(heads.is_masked(stream[one:two]) for one, two in itertools.pairwise(places))


CONTENTS = st.lists(st.sampled_from([0, 1, 125, 126, 300, 65_535, 65_536]), min_size=1, max_size=4)


@given(CONTENTS, st.lists(st.integers(0, 300_000), max_size=8))
def test_masked_frames_pass_however_they_are_cut(sizes: list[int], cuts: list[int]) -> None:
    assert fed(b"".join(frame(b"\x00" * size) for size in sizes), cuts)


@given(CONTENTS, st.lists(st.integers(0, 300_000), max_size=8), st.data())
def test_one_frame_without_a_mask_is_found(sizes: list[int], cuts: list[int], data: st.DataObject) -> None:
    bare = data.draw(st.integers(0, len(sizes) - 1))
    assert not fed(b"".join(frame(b"\xff" * size, at != bare) for at, size in enumerate(sizes)), cuts)


@pytest.mark.parametrize("step", [1, 2, 3])
def test_bytes_one_by_one(step: int) -> None:
    stream = frame(b"x" * 130) + frame(b"") + frame(b"y")
    assert fed(stream, list(range(0, len(stream), step)))


async def test_connection_ends_with_1002_at_a_frame_without_a_mask_and_lives_with_fragments() -> None:
    """Over a real socket, with frames that come together with the handshake."""

    async def echo(request: web.Request) -> web.WebSocketResponse:
        socket = await accept_websocket(request, "")
        async for message in socket:
            await socket.send_bytes(message.data)
        return socket

    app = web.Application()
    app.router.add_get("/", echo)
    async with TestServer(app) as server:
        for sent, answer in (
            (frame(b"abc"), b"\x82\x03abc"),
            (b"\x02\x82\0\0\0\0ab" + b"\x80\x81\0\0\0\0c", b"\x82\x03abc"),
            (frame(b"abc", masked=False), b"\x88\x02\x03\xea"),
            (frame(b"abc") + frame(b"x", masked=False), b"\x88\x02\x03\xea"),
        ):
            reader, writer = await asyncio.open_connection(server.host, server.port)
            writer.write(HANDSHAKE + sent[:1])
            async with asyncio.timeout(10):
                await reader.readuntil(b"\r\n\r\n")
                writer.write(sent[1:])
                found = await reader.readexactly(len(answer))
                while found != answer and answer[:1] == b"\x88":  # what came before it is answered
                    found = (found + await reader.readexactly(1))[1:]
            assert found == answer
            writer.close()


@pytest.mark.parametrize("small", [frame(b""), frame(b"x"), b"\x89\x80\0\0\0\0", b"\x8a\x80\0\0\0\0"])
async def test_many_small_messages_leave_turns_to_others(small: bytes) -> None:
    """Data, empty messages, pings and pongs: whatever comes at once, others run after each TURN of them."""
    count, turns, taken = 50 * TURN, list[int](), 0
    done = asyncio.Event()

    async def sink(request: web.Request) -> web.WebSocketResponse:
        nonlocal taken
        socket = await accept_websocket(request, "")
        other = asyncio.create_task(ticking())
        async for message in socket:
            taken += 1
            if message.data == b"end":
                break
        other.cancel()
        done.set()
        return socket

    async def ticking() -> None:
        while True:
            turns.append(taken)
            await asyncio.sleep(0)

    app = web.Application()
    app.router.add_get("/", sink)
    async with TestServer(app) as server:
        reader, writer = await asyncio.open_connection(server.host, server.port)
        writer.write(HANDSHAKE + small * count + frame(b"end"))
        reading = asyncio.create_task(reader.read(1 << 20))
        async with asyncio.timeout(60):
            await done.wait()
        assert len(turns) > 40
        assert max(after - before for before, after in itertools.pairwise(turns)) <= TURN
        reading.cancel()
        writer.close()


@pytest.mark.parametrize("small", [b"\x82\0", b"\x82\x01x", b"\x89\0"])
async def test_many_small_messages_of_a_dialed_peer_leave_turns_to_others(small: bytes) -> None:
    """A node or runtime may send them, too."""
    count, turns, taken = 50 * TURN, list[int](), 0

    async def flood(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(compress=False)
        await socket.prepare(request)
        assert request.transport is not None
        request.transport.write(small * count + b"\x82\x03end")
        async for _ in socket:
            pass
        return socket

    async def ticking() -> None:
        while True:
            turns.append(taken)
            await asyncio.sleep(0)

    app = web.Application()
    app.router.add_get("/", flood)
    async with (
        TestServer(app) as server,
        ClientSession(ws_response_class=DialedSocket) as session,
        session.ws_connect(server.make_url("/")) as socket,
    ):
        other = asyncio.create_task(ticking())
        async with asyncio.timeout(60):
            async for message in socket:
                taken += 1
                if message.data == b"end":
                    break
        other.cancel()
    assert len(turns) > 40
    assert max(after - before for before, after in itertools.pairwise(turns)) <= TURN
