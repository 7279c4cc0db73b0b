"""Responses of HTTP/1.1, cut in any way, and bytes that are none."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.http1.response import HEAD_LIMIT, ResponseInvalid, ResponseReader

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
WHOLE = HEAD + b"Content-Length: 5\r\n\r\nhello"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"
INTERIM = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"


def reader(*pieces: bytes) -> ResponseReader:
    found = ResponseReader()
    found.begin()
    for piece in pieces:
        found.feed(piece)
    return found


@pytest.mark.parametrize("data", [WHOLE, CHUNKED, INTERIM + WHOLE])
@given(cuts=st.lists(st.integers(0, 200)))
def test_response_cut_anywhere_is_read_the_same(data: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(data)]
    found = reader(*(piece for a, b in pairwise(edges) if (piece := data[a:b])))
    assert (found.status, found.headers[b"content-type"], found.take()) == (200, b"application/json", b"hello")
    assert found.complete
    assert found.keep_alive


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_bytes_that_are_no_response_raise_response_invalid(first: bytes, second: bytes) -> None:
    for beginning in (b"", HEAD, WHOLE[:-2]):
        try:
            reader(*(piece for piece in (beginning, first, second) if piece))
        except ResponseInvalid:
            continue


def test_second_response_to_one_request_is_invalid() -> None:
    for pieces in ((WHOLE + WHOLE,), (WHOLE, WHOLE), (WHOLE, b"x")):
        with pytest.raises(ResponseInvalid):
            reader(*pieces)


def test_next_request_forgets_the_last_response() -> None:
    found = reader(WHOLE)
    found.begin()
    assert (found.status, found.headers, found.take(), found.complete) == (0, {}, b"", False)
    found.feed(b"HTTP/1.1 204 No Content\r\n\r\n")
    assert (found.status, found.complete) == (204, True)


def test_body_without_length_ends_with_the_connection() -> None:
    found = reader(HEAD + b"\r\n", b"hello")
    assert not found.complete
    found.end()
    assert (found.take(), found.complete, found.keep_alive) == (b"hello", True, False)


@pytest.mark.parametrize("data", [b"", HEAD, WHOLE[:-1], CHUNKED[:-5]])
def test_connection_that_ends_early_completes_nothing(data: bytes) -> None:
    found = reader(*([data] if data else []))
    found.end()
    assert not found.complete


def test_server_that_closes_is_not_asked_again() -> None:
    assert not reader(HEAD + b"Connection: close\r\nContent-Length: 0\r\n\r\n").keep_alive


@pytest.mark.parametrize("data", [HEAD + b"A: " + b"a" * 1000, INTERIM])
def test_endless_headers_are_invalid(data: bytes) -> None:
    with pytest.raises(ResponseInvalid, match="headers or trailers of the response"):
        reader(*[data] * (HEAD_LIMIT // len(data) + 2))


def test_trailers_are_bounded_and_no_headers() -> None:
    found = reader(CHUNKED[:-2], b"Content-Type: text/plain\r\n\r\n")
    assert (found.complete, found.headers[b"content-type"]) == (True, b"application/json")
    with pytest.raises(ResponseInvalid, match="trailers of the response"):
        reader(CHUNKED[:-2], *(b"A-%d: b\r\n" % number for number in range(HEAD_LIMIT // 8)))


def test_upgrade_is_invalid() -> None:
    with pytest.raises(ResponseInvalid):
        reader(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: spdy\r\nConnection: upgrade\r\n\r\nbytes")
