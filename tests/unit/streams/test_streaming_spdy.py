"""SPDY: any cut of the bytes gives the same events, and nothing a peer sends does more than end its connection."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.streams import spdy_frames as frames
from protocols.streams.spdy_frames import DICTIONARY, FrameReader, HeaderReader, HeaderWriter, SpdyBroken, SpdyFrame
from protocols.streams.spdy_peers import BytesToSend, Data, Left, Opened, Reset, SpdyServer, StreamEnded

names = st.text("abcdefgh-", min_size=1, max_size=10)
header_blocks = st.lists(st.dictionaries(names, st.text("xyz019 ", max_size=10), max_size=5), max_size=5)
some_frames = st.lists(
    st.one_of(
        st.builds(SpdyFrame, st.just(0), st.integers(0, 255), st.integers(0, 2**31 - 1), st.binary(max_size=50)),
        st.builds(SpdyFrame, st.integers(1, 20), st.integers(0, 255), st.just(0), st.binary(max_size=50)),
    ),
    max_size=8,
)


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    parts, at = [], 0
    for size in [*sizes, len(data)]:
        parts.append(data[at : at + size])
        at += size
    return parts


def test_the_dictionary_is_the_one_of_the_protocol() -> None:
    assert (len(DICTIONARY), zlib.adler32(DICTIONARY)) == (1423, 0xE3C6A7C2)


@given(header_blocks)
def test_headers_come_back(blocks: list[dict[str, str]]) -> None:
    writer, reader = HeaderWriter(), HeaderReader()
    assert [reader.unpack(writer.pack(block)) for block in blocks] == blocks


@given(some_frames, st.lists(st.integers(0, 30), max_size=20))
def test_frames_come_back_however_they_are_cut(sent: list[SpdyFrame], sizes: list[int]) -> None:
    reader = FrameReader()
    data = b"".join(frames.pack(frame) for frame in sent)
    assert [frame for part in cut(data, sizes) for frame in reader.feed(part)] == sent


@given(st.binary(max_size=200), some_frames)
def test_garbage_is_refused_or_ignored(garbage: bytes, sent: list[SpdyFrame]) -> None:
    server = SpdyServer()
    try:
        list(server.feed(b"".join(frames.pack(frame) for frame in sent) + garbage))
    except SpdyBroken:
        return


class Client:
    """The opening end, as far as these tests need it."""

    def __init__(self) -> None:
        self._pack = HeaderWriter()

    def open(self, stream: int, fin: bool = False, **headers: str) -> bytes:
        rest = b"\0\0" + self._pack.pack(headers)
        return frames.pack_control(frames.SYN_STREAM, stream, 0, flags=fin, rest=rest)


def test_a_conversation() -> None:
    client, server = Client(), SpdyServer()
    opened = list(server.feed(client.open(1, True, streamtype="error", port="80")))
    assert opened[1:] == [Opened(1, {"streamtype": "error", "port": "80"}), StreamEnded(1)]
    assert isinstance(opened[0], BytesToSend)
    (reply,) = FrameReader().feed(opened[0].data)
    assert (reply.kind, frames.number(reply)) == (frames.SYN_REPLY, 1)
    list(server.feed(client.open(3, streamtype="data")))
    assert list(server.feed(frames.pack_data(3, b"hi", fin=True))) == [Data(3, b"hi"), StreamEnded(3)]
    ping = frames.pack_control(frames.PING, 7)
    assert list(server.feed(ping)) == [BytesToSend(ping)]
    assert list(server.feed(frames.pack_control(frames.RST_STREAM, 3, 5))) == [Reset(3)]
    assert list(server.feed(frames.pack_data(3, b"late"))) == []
    assert list(server.feed(frames.pack_control(frames.WINDOW_UPDATE, 3, 100))) == []
    assert list(server.feed(frames.pack_control(frames.GOAWAY, 3, 0))) == [Left()]


def test_limits() -> None:
    client, server = Client(), SpdyServer()
    with pytest.raises(SpdyBroken, match="stream 3 after 5"):
        list(server.feed(client.open(5) + client.open(3)))
    with pytest.raises(SpdyBroken, match="bytes"):
        list(FrameReader().feed(b"\0\0\0\1\0\xff\xff\xff"))
    with pytest.raises(SpdyBroken, match="not SPDY"):
        list(FrameReader().feed(b"\x80\2\0\1\0\0\0\0"))


def test_streams_past_the_limit_are_refused() -> None:
    client, server = Client(), SpdyServer()
    events = [event for n in range(600) for event in server.feed(client.open(2 * n + 1))]
    assert sum(isinstance(event, Opened) for event in events) == 512


def test_a_block_that_unpacks_to_too_much_ends_the_connection() -> None:
    with pytest.raises(SpdyBroken, match="more than"):
        HeaderReader().unpack(HeaderWriter().pack({"a": "x" * 5_000}))
