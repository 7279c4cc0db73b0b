"""Connections that prove nothing: bounded in bytes, time and number, while those that prove themselves are served."""

import contextlib
import json
import os
import socket
import ssl
from collections.abc import Iterator

import pytest

from protocols.serving.connection import HEAD_BYTES
from protocols.serving.unauthenticated import UnauthenticatedLimits
from tests.support.apiserver_plane import Plane
from tests.support.tls_words import CONFIGMAPS, request, said
from tests.support.waiting import until

PER_ADDRESS = UnauthenticatedLimits().per_address
PATIENCE_S = 60.0


def raw(plane: Plane) -> socket.socket:
    return socket.create_connection(("127.0.0.1", plane.port), PATIENCE_S)


@contextlib.contextmanager
def stranger(plane: Plane) -> Iterator[ssl.SSLSocket]:
    with plane.tls("").wrap_socket(raw(plane), server_hostname="127.0.0.1") as tls:
        yield tls


def rest(tls: socket.socket) -> bytes:
    found = b""
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while part := tls.recv(65536):
            found += part
    return found


def long_request(size: int) -> bytes:
    return request(b"GET", b"/healthz", *(b"X-%d: " % n + b"a" * 10_000 for n in range(size // 10_000)))


def descriptors(plane: Plane) -> int:
    return len(os.listdir(f"/proc/{plane.processes['apiserver-0'].pid}/fd"))


@pytest.mark.parametrize(
    "sent",
    [
        long_request(2 * HEAD_BYTES),
        long_request(2 * HEAD_BYTES)[:-2],
        b"GET /" + b"a" * 2 * HEAD_BYTES,
        request(b"GET", b"/healthz")[:-2] + b"".join(b"X-%d: a\r\n" % n for n in range(10_000)),
    ],
    ids=["whole", "never-ending", "no-line", "many"],
)
def test_headers_of_an_unauthenticated_client_beyond_the_limit_are_rejected(plane: Plane, sent: bytes) -> None:
    with stranger(plane) as tls:
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            tls.sendall(sent)
        answer = rest(tls)
    if answer.startswith(b"HTTP/1.0 400"):  # too many headers: the parser gave up first
        return
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert b"Connection: close\r\n" in answer
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == 431


def test_headers_within_the_limit_and_bodies_beyond_it_are_taken(plane: Plane) -> None:
    assert said(plane, long_request(HEAD_BYTES - 10_000), user="").startswith(b"HTTP/1.1 200 ")
    body = said(plane, request(b"POST", CONFIGMAPS, body=b"x" * 3 * HEAD_BYTES), user="")
    assert body.startswith(b"HTTP/1.1 401 ")
    assert body.count(b"HTTP/1.1 ") == 1
    assert said(plane, long_request(2 * HEAD_BYTES)).startswith(b"HTTP/1.1 200 "), "with a client certificate"


def test_unauthenticated_connections_beyond_the_limit_close_the_oldest(plane: Plane) -> None:
    with contextlib.ExitStack() as held:
        first = held.enter_context(stranger(plane))
        for _ in range(PER_ADDRESS + 10):
            held.enter_context(raw(plane))
        answer = rest(first)
        assert answer.startswith(b"HTTP/1.1 429 ")
        assert "authenticate, or close idle ones" in json.loads(answer.partition(b"\r\n\r\n")[2])["message"]
        assert said(plane, request(b"GET", CONFIGMAPS)).startswith(b"HTTP/1.1 200 ")
        assert descriptors(plane) < PER_ADDRESS + 100


def test_descriptors_of_a_storm_come_back(plane: Plane) -> None:
    before = descriptors(plane)
    with contextlib.ExitStack() as held:
        for _ in range(PER_ADDRESS):
            held.enter_context(raw(plane))
    until("descriptors come back", lambda: descriptors(plane), PATIENCE_S, good=lambda count: count <= before + 5)
