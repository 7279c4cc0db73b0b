"""The server's end of HTTP/2 against our client's: calls, windows, cancels, and the bounds on a hostile client."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.http2 import frames as h2
from protocols.http2 import server_session
from protocols.http2.client_session import Http2Session
from protocols.http2.frames import PREFACE, BadHttp2, pack, pack_settings
from protocols.http2.hpack import Encoder
from protocols.http2.server_session import Request, ServerSession, timeout_of

PATH = ((b":method", b"POST"), (b":path", b"/s/M"), (b"grpc-timeout", b"5S"))


class Pair:
    """Both ends, with what either reported; `pass_on` carries bytes until neither has any."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.cancelled: list[int] = []
        self.answers: list[tuple[int, bytes]] = []
        self.ends: list[tuple[int, str, str]] = []
        self.server = ServerSession(self.requests.append, self.cancelled.append, largest=1 << 20)
        self.client = Http2Session(
            lambda number, body: self.answers.append((number, body)),
            lambda number, code, text: self.ends.append((number, code, text)),
            largest=1 << 22,
        )

    def pass_on(self) -> None:
        while (up := self.client.take()) or (down := self.server.take()):
            self.server.feed(up)
            self.client.feed(self.server.take() if up else down)

    def ask(self, number: int, body: bytes = b"question") -> None:
        self.client.call(number, PATH)
        self.client.send(number, body, last=True)
        self.pass_on()


def raw() -> tuple[ServerSession, list[Request], list[int]]:
    """A session that has received preface and settings from a client made of frames."""
    requests: list[Request] = []
    cancelled: list[int] = []
    session = ServerSession(requests.append, cancelled.append, largest=100)
    session.feed(PREFACE + pack_settings({}))
    return session, requests, cancelled


def head(id: int, *headers: tuple[bytes, bytes], flags: int = h2.END_HEADERS) -> bytes:
    return pack(h2.HEADERS, flags, id, Encoder().encode(headers or PATH))


def message(body: bytes) -> bytes:
    return struct.pack(">BI", 0, len(body)) + body


def test_call_is_answered_once_with_messages_and_status() -> None:
    pair = Pair()
    pair.ask(7)
    (request,) = pair.requests
    assert (request.path, request.message, request.timeout) == ("/s/M", b"question", 5.0)
    pair.server.message(request.id, b"answer")
    pair.server.end(request.id, "OK")
    pair.server.end(request.id, "INTERNAL", "twice")
    pair.pass_on()
    assert pair.answers == [(7, b"answer")]
    assert pair.ends == [(7, "OK", "")]
    assert not pair.server.busy


@pytest.mark.parametrize("text", ["no such container", "100 % of “it”\n\x00", "x" * 5000, "ü" * 3000])
def test_error_keeps_code_and_text(text: str) -> None:
    pair = Pair()
    pair.ask(1)
    pair.server.end(pair.requests[0].id, "NOT_FOUND", text)
    pair.pass_on()
    expected = text.encode()[: server_session.TEXT_LIMIT].decode(errors="replace")
    assert pair.ends == [(1, "NOT_FOUND", expected)]


@given(st.lists(st.integers(min_value=1, max_value=200), max_size=8), st.integers(min_value=0, max_value=40_000))
def test_requests_are_the_same_however_the_bytes_come(cuts: list[int], size: int) -> None:
    pair = Pair()
    pair.client.feed(pair.server.take())
    for number in (1, 2):
        pair.client.call(number, PATH)
        pair.client.send(number, b"y" * size, last=True)
    sent = pair.client.take()
    for cut in cuts:
        pair.server.feed(sent[:cut])
        sent = sent[cut:]
    pair.server.feed(sent)
    assert [request.message for request in pair.requests] == [b"y" * size] * 2


def test_no_more_goes_out_than_the_windows_take_and_the_trailers_come_last() -> None:
    session, requests, _ = raw()
    session.feed(pack_settings({h2.INITIAL_WINDOW_SIZE: 100}))
    session.feed(head(1) + pack(h2.DATA, h2.END_STREAM, 1, message(b"")))
    session.take()
    session.message(requests[0].id, b"z" * 295)
    session.end(1, "OK")
    sent = list(h2.Splitter().feed(session.take()))
    assert [(kind, len(payload)) for kind, _, _, payload in sent if kind == h2.DATA] == [(h2.DATA, 100)]
    assert session.pending(1) == 200
    session.feed(pack(h2.WINDOW_UPDATE, 0, 1, (1000).to_bytes(4)))
    assert [frame[0] for frame in h2.Splitter().feed(session.take())] == [h2.DATA, h2.HEADERS]
    assert not session.busy


def test_streams_share_the_connections_window_in_order() -> None:
    session, requests, _ = raw()
    session.feed(pack_settings({h2.INITIAL_WINDOW_SIZE: 1 << 20}))
    for id in (1, 3):
        session.feed(head(id) + pack(h2.DATA, h2.END_STREAM, id, message(b"")))
        session.message(id, b"z" * 60_000)
        session.end(id, "OK")
    session.take()
    session.feed(pack(h2.WINDOW_UPDATE, 0, 0, (1 << 20).to_bytes(4)))
    assert [frame[2] for frame in h2.Splitter().feed(session.take())][-1] == 3
    assert len(requests) == 2
    assert not session.busy


def test_reset_cancels_a_call_that_runs_and_forgets_one_that_did_not_begin() -> None:
    session, _, cancelled = raw()
    session.feed(head(1) + pack(h2.DATA, h2.END_STREAM, 1, message(b"")) + head(3))
    for id in (1, 3):
        session.feed(pack(h2.RST_STREAM, 0, id, bytes(4)))
    session.message(1, b"nobody reads this")
    session.end(1, "OK")
    assert cancelled == [1]
    assert not session.busy


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(pack(h2.DATA, h2.END_STREAM, 1, b"\0\0\0"), id="cut off"),
        pytest.param(pack(h2.DATA, h2.END_STREAM, 1, b""), id="none"),
        pytest.param(pack(h2.DATA, h2.END_STREAM, 1, message(b"") * 2), id="two"),
        pytest.param(pack(h2.DATA, 0, 1, message(b"") * 2), id="two, and no end"),
        pytest.param(pack(h2.DATA, 0, 1, message(b"x" * 101)), id="too large"),
        pytest.param(pack(h2.DATA, 0, 1, b"\1" + message(b"x")[1:]), id="compressed"),
    ],
)
def test_request_that_is_not_one_message_is_an_error_of_the_call(data: bytes) -> None:
    session, requests, _ = raw()
    session.feed(head(1) + data)
    assert not requests
    assert not session.busy
    session.feed(head(3) + pack(h2.DATA, h2.END_STREAM, 3, message(b"fine")))
    assert [request.message for request in requests] == [b"fine"]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"GET / HTTP/1.1\r\n", id="HTTP/1"),
        pytest.param(PREFACE + pack(h2.PING, 0, 0, bytes(8)), id="no settings"),
        pytest.param(PREFACE + pack_settings({}) + head(2), id="even stream"),
        pytest.param(PREFACE + pack_settings({}) + head(1, (b"te", b"trailers")), id="no path"),
        pytest.param(PREFACE + pack_settings({}) + head(1, (b":path", b"/" * 2000)), id="long path"),
        pytest.param(
            PREFACE + pack_settings({}) + head(1) + pack(h2.DATA, 1, 1, message(b"")) + pack(h2.DATA, 0, 1, b"x"),
            id="data after the end",
        ),
    ],
)
def test_nonsense_ends_the_connection(data: bytes) -> None:
    session = ServerSession(lambda request: None, lambda id: None, largest=100)
    with pytest.raises(BadHttp2):
        session.feed(data)


def test_calls_beyond_the_bound_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_session, "CALLS", 2)
    session, _, _ = raw()
    session.take()
    session.feed(head(1) + head(3) + head(5))
    (refused,) = h2.Splitter().feed(session.take())
    assert refused == (h2.RST_STREAM, 0, 5, h2.REFUSED_STREAM.to_bytes(4))


def test_incomplete_requests_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_session, "REQUEST_BYTES", 150)
    session, _, _ = raw()
    for id in (1, 3, 5, 7):  # each ended one frees its bytes
        session.feed(head(id) + pack(h2.DATA, 0, id, message(b"x" * 90)))
        session.feed(pack(h2.DATA, 0, id, b"\1\0\0\0\0") if id % 4 == 1 else pack(h2.RST_STREAM, 0, id, bytes(4)))
    session.feed(head(9) + pack(h2.DATA, 0, 9, message(b"x" * 90)))
    with pytest.raises(BadHttp2, match="too large together"):
        session.feed(head(11) + pack(h2.DATA, 0, 11, message(b"x" * 90)))


def test_going_away_refuses_new_calls_and_finishes_the_old() -> None:
    pair = Pair()
    pair.ask(1)
    pair.server.go_away()
    pair.pass_on()
    assert pair.client.draining
    pair.server.end(pair.requests[0].id, "OK")
    pair.pass_on()
    assert [end[:2] for end in pair.ends] == [(1, "OK")]


@pytest.mark.parametrize(
    ("text", "seconds"), [(b"5S", 5.0), (b"250m", 0.25), (b"1H", 3600.0), (b"", None), (b"123456789S", None)]
)
def test_timeout_is_read_in_its_unit(text: bytes, seconds: float | None) -> None:
    assert timeout_of(text) == seconds
