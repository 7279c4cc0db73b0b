"""Exec over SPDY, both ends of ours: what one says as websocket messages the other hears, ends of streams included."""

import asyncio
import json

import aiohttp
from hypothesis import given, settings
from hypothesis import strategies as st

from protocols.streams import spdy_frames as frames
from protocols.streams.channels import CLOSE, ERROR, RESIZE, STDERR, STDIN, STDOUT, exit_status
from protocols.streams.spdy_channels import SpdyChannels, SpdyCommand
from protocols.streams.spdy_peers import BytesToSend, Client, Data, StreamEnded


class Pipe:
    """One end of a connection in memory; `cut`: portions in which it is read."""

    def __init__(self, cut: int) -> None:
        self._cut = cut
        self._held = bytearray()
        self._news = asyncio.Event()
        self._ended = False
        self.peer: Pipe

    async def read(self) -> bytes:
        while not self._held and not self._ended:
            self._news.clear()
            await self._news.wait()
        data = bytes(self._held[: self._cut])
        del self._held[: self._cut]
        return data

    async def write(self, data: bytes) -> None:
        self.peer._held += data
        self.peer._news.set()

    def end(self) -> None:
        self.peer._ended = True
        self.peer._news.set()


def pipes(cut: int) -> tuple[Pipe, Pipe]:
    one, other = Pipe(cut), Pipe(cut)
    one.peer, other.peer = other, one
    return one, other


async def heard(end: SpdyCommand | SpdyChannels, count: int) -> list[bytes]:
    return [(await end.receive()).data for _ in range(count)]


@settings(deadline=None)
@given(st.integers(1, 4000), st.lists(st.tuples(st.sampled_from([STDOUT, STDERR]), st.binary(min_size=1)), max_size=6))
async def test_a_command_is_the_same_at_both_ends(cut: int, said: list[tuple[int, bytes]]) -> None:
    ours, theirs = pipes(cut)
    client, runtime = SpdyCommand(ours), SpdyChannels(theirs)
    channels = {STDIN, STDOUT, STDERR, ERROR, RESIZE}
    await client.open(channels)
    assert await runtime.open(channels)
    size = json.dumps({"Width": 80, "Height": 25}).encode()
    await client.send_bytes(bytes([RESIZE]) + size)
    await client.send_bytes(bytes([STDIN]) + b"input")
    await client.send_bytes(bytes([CLOSE, STDIN]))
    await client.send_bytes(bytes([STDIN]) + b"after the end")
    told = b"".join(await heard(runtime, 1))
    assert told == bytes([RESIZE]) + size
    text = b""
    while (message := (await runtime.receive()).data)[0] == STDIN:
        text += message[1:]
    assert (text, message) == (b"input", bytes([CLOSE, STDIN]))
    for channel, data in said:
        await runtime.send_bytes(bytes([channel]) + data)
    await runtime.send_bytes(bytes([ERROR]) + exit_status(3))
    theirs.end()
    parts = {STDOUT: b"", STDERR: b"", ERROR: b""}
    last = -1
    while (got := await client.receive()).type is aiohttp.WSMsgType.BINARY:
        last = got.data[0]
        parts[last] += got.data[1:]
    assert last == ERROR
    assert parts == {
        STDOUT: b"".join(data for channel, data in said if channel == STDOUT),
        STDERR: b"".join(data for channel, data in said if channel == STDERR),
        ERROR: exit_status(3),
    }
    assert client.close_code == aiohttp.WSCloseCode.OK


async def test_a_status_without_an_end_is_reported_when_the_connection_closes() -> None:
    """So do runtimes that close at once."""

    ours, theirs = pipes(10)
    client = SpdyCommand(ours)
    await client.open({ERROR})
    await theirs.write(frames.pack_data(1, b'{"status":') + frames.pack_data(1, b'"Success"}'))
    theirs.end()
    assert (await client.receive()).data == bytes([ERROR]) + b'{"status":"Success"}'
    assert (await client.receive()).type is aiohttp.WSMsgType.CLOSED


async def test_nonsense_from_the_runtime_ends_the_connection() -> None:
    ours, theirs = pipes(10)
    client = SpdyCommand(ours)
    await client.open({ERROR})
    await theirs.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    assert (await client.receive()).type is aiohttp.WSMsgType.CLOSED


def test_pings_are_answered_and_ended_streams_are_silent() -> None:
    client = Client()
    stream, _ = client.open({"streamtype": "stdout"})
    ping = frames.pack_control(frames.PING, 2)
    sent = ping + frames.pack_data(stream, b"a", fin=True) + frames.pack_data(stream, b"late")
    assert list(client.feed(sent)) == [BytesToSend(ping), Data(stream, b"a"), StreamEnded(stream)]


async def test_streams_that_are_opened_and_reset_leave_nothing_behind() -> None:
    ours, theirs = pipes(1 << 20)
    client, runtime = Client(), SpdyChannels(theirs)
    for _ in range(100):
        stream, data = client.open({"streamtype": "stdin"})
        await ours.write(data + frames.pack_control(frames.RST_STREAM, stream, 1))
    _, data = client.open({"streamtype": "error"})
    await ours.write(data)
    assert await runtime.open({STDIN, ERROR})
    assert len(runtime._channels) == 2
