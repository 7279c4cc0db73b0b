"""The client's end of HTTP/2 against a server made of frames: calls, windows, refusals, farewells, and nonsense."""

import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.http2 import frames as h2
from protocols.http2.client_session import Http2Session
from protocols.http2.frames import LARGEST_WINDOW, PREFACE, BadHttp2, Splitter, pack, pack_settings, read_settings
from protocols.http2.hpack import Encoder
from protocols.http2.session import FIRST_WINDOW, SETTINGS_AT_ONCE

PATH = ((b":path", b"/x"),)
OK = ((b"grpc-status", b"0"), (b"grpc-message", b""))


class Pair:
    """A session and what its caller heard; `server` packs what the other side says."""

    def __init__(self, **settings: int) -> None:
        self.heard: list[tuple[int, bytes]] = []
        self.ended: list[tuple[int, str, str]] = []
        self.session = Http2Session(
            lambda number, body: self.heard.append((number, body)),
            lambda number, code, text: self.ended.append((number, code, text)),
            largest=1 << 22,
        )
        self.encoder = Encoder()
        self._splitter = Splitter()
        assert self.session.take().startswith(PREFACE)
        self.session.feed(pack_settings({getattr(h2, name): value for name, value in settings.items()}))
        assert self.sent() == [(h2.SETTINGS, h2.ACK, 0, b"")]

    def sent(self) -> list[h2.Frame]:
        return list(self._splitter.feed(self.session.take()))

    def ask(self, number: int, body: bytes = b"question") -> list[h2.Frame]:
        self.session.call(number, PATH)
        self.session.send(number, body, last=True)
        return self.sent()

    def answer(self, stream: int, *messages: bytes, status: tuple[tuple[bytes, bytes], ...] = OK) -> bytes:
        head = pack(h2.HEADERS, h2.END_HEADERS, stream, self.encoder.encode(((b":status", b"200"),)))
        body = b"".join(struct.pack(">BI", 0, len(message)) + message for message in messages)
        data = b"".join(pack(h2.DATA, 0, stream, body[at : at + 16_384]) for at in range(0, len(body), 16_384))
        flags = h2.END_HEADERS | h2.END_STREAM
        return head + data + pack(h2.HEADERS, flags, stream, self.encoder.encode(status))


@given(st.lists(st.integers(min_value=1, max_value=300), max_size=8), st.integers(min_value=0, max_value=40_000))
def test_answers_are_the_same_however_the_bytes_come(cuts: list[int], size: int) -> None:
    pair = Pair()
    head, data = pair.ask(7), b"y" * size
    assert [kind for kind, *_ in head] == [h2.HEADERS, h2.DATA]
    pair.ask(8)
    told = pair.answer(3, b"second") + pair.answer(1, data)
    for cut in cuts:
        pair.session.feed(told[:cut])
        told = told[cut:]
    pair.session.feed(told)
    assert pair.heard == [(8, b"second"), (7, data)]
    assert pair.ended == [(8, "OK", ""), (7, "OK", "")]
    assert not pair.session.busy


def test_no_more_goes_out_than_the_windows_take() -> None:
    pair = Pair(INITIAL_WINDOW_SIZE=100)
    sent = pair.ask(1, b"z" * 300)
    assert sum(len(payload) for kind, _, _, payload in sent if kind == h2.DATA) == 100
    pair.session.feed(pack_settings({h2.INITIAL_WINDOW_SIZE: 150}))
    pair.session.feed(pack(h2.WINDOW_UPDATE, 0, 1, (40).to_bytes(4)))
    assert sum(len(payload) for kind, _, _, payload in pair.sent() if kind == h2.DATA) == 90
    pair.session.feed(pack(h2.WINDOW_UPDATE, 0, 1, (1000).to_bytes(4)))
    (last,) = pair.sent()
    assert (last[1], len(last[3])) == (h2.END_STREAM, 300 + 5 - 190)


def test_the_connection_has_a_window_of_its_own() -> None:
    pair = Pair(INITIAL_WINDOW_SIZE=LARGEST_WINDOW)
    sent = pair.ask(1, b"z" * 100_000)
    assert sum(len(payload) for kind, _, _, payload in sent if kind == h2.DATA) == FIRST_WINDOW
    assert [kind for kind, *_ in pair.ask(2)] == [h2.HEADERS], "the next call waits, too"
    pair.session.feed(pack(h2.WINDOW_UPDATE, 0, 0, (1 << 20).to_bytes(4)))
    assert {stream for kind, _, stream, _ in pair.sent() if kind == h2.DATA} == {1, 3}


def test_calls_beyond_the_servers_limit_wait_for_their_turn() -> None:
    pair = Pair(MAX_CONCURRENT_STREAMS=1)
    assert pair.ask(1)
    assert pair.ask(2) == pair.ask(3) == []
    pair.session.cancel(3)
    pair.session.feed(pair.answer(1, b"a"))
    assert [stream for _, _, stream, _ in pair.sent()] == [3, 3]


def test_faults_are_sent_with_their_code() -> None:
    pair = Pair()
    for number in range(1, 6):
        pair.ask(number)
    refused = ((b"grpc-status", b"11"), (b"grpc-message", b"etcdserver: compacted%21"))
    pair.session.feed(pair.answer(1, status=refused))
    pair.session.feed(pair.answer(3, status=((b"grpc-status", b"99"),)))
    pair.session.feed(pack(h2.RST_STREAM, 0, 5, (8).to_bytes(4)))
    flags = h2.END_HEADERS | h2.END_STREAM
    pair.session.feed(pack(h2.HEADERS, flags, 7, pair.encoder.encode(((b":status", b"404"),))))
    pair.session.feed(pack(h2.DATA, 0, 9, b"\1" + bytes(4)))
    codes = [(number, code) for number, code, _ in pair.ended]
    expected = ["OUT_OF_RANGE", "UNKNOWN", "CANCELLED", "UNIMPLEMENTED", "RESOURCE_EXHAUSTED"]
    assert codes == list(enumerate(expected, 1))
    assert pair.ended[0][2] == "etcdserver: compacted!"


@pytest.mark.parametrize("header", [b"grpc-status", b":status"])
def test_status_of_5000_digits_is_an_error_of_the_call(header: bytes) -> None:
    pair = Pair()
    pair.ask(1)
    pair.session.feed(pair.answer(1, status=((b":status", b""), (header, b"9" * 5000))))
    ((_, code, text),) = pair.ended
    assert code == "UNAVAILABLE"
    assert len(text) < 100


def test_headers_without_end_are_not_retained() -> None:
    pair = Pair()
    pair.ask(1)
    tracemalloc.start()
    for frame in range(20):
        block = b"".join(b"\0\4%04d\1x" % (500 * frame + n) for n in range(500))
        pair.session.feed(pack(h2.HEADERS, h2.END_HEADERS, 1, block))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 200_000


def test_a_farewell_ends_what_the_server_has_not_begun() -> None:
    pair = Pair()
    pair.ask(1)
    pair.ask(2)
    pair.session.feed(pack(h2.GOAWAY, 0, 0, (1).to_bytes(4) + bytes(4)))
    assert pair.session.draining
    assert pair.ended == [(2, "UNAVAILABLE", "the server is going away")]
    pair.session.feed(pair.answer(1, b"still"))
    assert pair.heard == [(1, b"still")]


def test_who_cancels_hears_nothing_more() -> None:
    pair = Pair()
    pair.ask(1)
    pair.session.cancel(1)
    assert [(kind, payload) for kind, _, _, payload in pair.sent()] == [(h2.RST_STREAM, (8).to_bytes(4))]
    pair.session.feed(pair.answer(1, b"late"))
    assert not pair.heard
    assert not pair.ended


def test_all_calls_end_with_the_connection() -> None:
    pair = Pair(MAX_CONCURRENT_STREAMS=1)
    pair.ask(1)
    pair.ask(2)
    pair.session.lost("gone")
    assert pair.ended == [(1, "UNAVAILABLE", "gone"), (2, "UNAVAILABLE", "gone")]


def test_padding_priorities_and_headers_in_pieces() -> None:
    pair = Pair()
    pair.ask(1)
    block = pair.encoder.encode(((b":status", b"200"), (b"x", b"y")))
    pair.session.feed(pack(h2.HEADERS, h2.PADDED | h2.PRIORITIZED, 1, b"\2" + bytes(5) + block[:1] + bytes(2)))
    pair.session.feed(pack(h2.CONTINUATION, h2.END_HEADERS, 1, block[1:]))
    pair.session.feed(pack(h2.DATA, h2.PADDED, 1, b"\3" + struct.pack(">BI", 0, 1) + b"m" + bytes(3)))
    pair.session.feed(pack(99, 0, 1, b"unknown") + pack(h2.PING, 0, 0, b"12345678"))
    assert pair.heard == [(1, b"m")]
    assert pair.sent() == [(h2.PING, h2.ACK, 0, b"12345678")]


@pytest.mark.parametrize(
    "told",
    [
        pack(h2.CONTINUATION, 0, 1),
        pack(h2.HEADERS, 0, 1) + pack(h2.PING, 0, 0, bytes(8)),
        pack(h2.PUSH_PROMISE, 0, 1),
        pack(h2.DATA, h2.PADDED, 1, b"\5"),
        pack(h2.SETTINGS, 0, 0, b"abc"),
        pack_settings({h2.MAX_FRAME_SIZE: 0}),
        pack_settings({h2.MAX_FRAME_SIZE: 1 << 24}),
        pack_settings({h2.INITIAL_WINDOW_SIZE: LARGEST_WINDOW + 1}),
        pack_settings({}) * (SETTINGS_AT_ONCE + 1),
        pack(h2.WINDOW_UPDATE, 0, 0, b"a"),
        pack(h2.WINDOW_UPDATE, 0, 0, LARGEST_WINDOW.to_bytes(4)),
        pack(h2.DATA, 0, 1, bytes(20_000)),
        pack(h2.HEADERS, 0, 1, bytes(16_000)) + 5 * pack(h2.CONTINUATION, 0, 1, bytes(16_000)),
    ],
)
def test_nonsense_ends_the_connection(told: bytes) -> None:
    pair = Pair()
    pair.ask(1)
    with pytest.raises(BadHttp2):
        pair.session.feed(told)


def test_setting_that_a_frame_repeats_visits_each_stream_once() -> None:
    windows = [pack_settings({h2.INITIAL_WINDOW_SIZE: size})[9:] for size in (0, LARGEST_WINDOW, 5)]
    tables = [pack_settings({h2.HEADER_TABLE_SIZE: size})[9:] for size in (0, 4096)]
    assert read_settings(b"".join((windows + tables) * 500)) == {h2.INITIAL_WINDOW_SIZE: 5, h2.HEADER_TABLE_SIZE: 0}


@given(st.binary(max_size=200))
def test_any_bytes_are_understood_or_refused(told: bytes) -> None:
    pair = Pair()
    pair.ask(1)
    try:
        pair.session.feed(told)
    except BadHttp2:
        return


def test_a_server_that_is_none_is_found_out() -> None:
    session = Http2Session(lambda number, body: None, lambda number, code, text: None, largest=1)
    with pytest.raises(BadHttp2):
        session.feed(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
