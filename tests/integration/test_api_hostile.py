"""Clients that break HTTP itself, or lean on the server: each gets its answer or its end, nobody else notices."""

import gzip
import json
import socket
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import psutil
import pytest

from tests.support.api_judge import Answer, Client, fault
from tests.support.apiserver_plane import Plane, running_plane
from tests.support.tls_words import CONFIGMAPS, connected, post, request, said

SMALL = b'{"metadata":{"generateName":"g-"}}'
CHUNKED = b"Transfer-Encoding: chunked"
JSON = b"Content-Type: application/json"
GROWTH_MIB = 60
"""What the process may be larger after all of it; one body is three."""

WORDS: dict[str, tuple[bytes | Callable[[], bytes], int]] = {
    "no such method": (b"FROB / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "TRACE": (request(b"TRACE", CONFIGMAPS), 405),
    "OPTIONS": (request(b"OPTIONS", CONFIGMAPS), 405),
    "CONNECT": (request(b"CONNECT", b"a:1"), 405),
    "a write to discovery": (request(b"POST", b"/apis", body=b"{}"), 405),
    "HTTP/9.9": (b"GET / HTTP/9.9\r\nHost: x\r\n\r\n", 400),
    "HTTP/2 unasked": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "NUL in a header": (request(b"GET", CONFIGMAPS, b"X: a\0b"), 400),
    "a header of 200 kB": (request(b"GET", CONFIGMAPS, b"X: " + b"a" * 200_000), 400),
    "20,000 headers": (request(b"GET", CONFIGMAPS, *(b"X%d: a" % n for n in range(20_000))), 400),
    "a selector of 100 kB": (request(b"GET", CONFIGMAPS + b"?labelSelector=a+in+(" + b"b," * 50_000 + b"b)"), 400),
    "a selector of 30 kB": (request(b"GET", CONFIGMAPS + b"?labelSelector=a+in+(" + b"b-12345," * 4_000 + b"b)"), 200),
    "60,000 parameters": (request(b"GET", b"/livez?" + b"a&" * 60_000), 400),
    "a line of a megabyte": (request(b"GET", b"/" + b"a" * 1_000_000), 400),
    "bytes in an Accept": (request(b"GET", CONFIGMAPS, b"Accept: \xff\xfe"), 406),
    "bytes in an agent": (post(SMALL, b"User-Agent: \xff\xfe/1"), 201),
    "bytes in an impersonation": (request(b"GET", CONFIGMAPS, b"Impersonate-User: \xff"), 400),
    "bytes in a content type": (request(b"POST", CONFIGMAPS, b'Content-Type: \xff;;=;"', body=b"{}"), 415),
    "bytes in a path": (request(b"GET", CONFIGMAPS + b"/%ff%fe"), 404),
    "bytes in a query": (request(b"GET", CONFIGMAPS + b"?labelSelector=%ff&fieldSelector=%zz"), 400),
    "NUL in a name": (request(b"GET", CONFIGMAPS + b"/a%00b"), 400),
    "up a directory": (request(b"GET", b"/api/v1/namespaces/../nodes"), 404),
    "chunks of nonsense": (request(b"POST", CONFIGMAPS, JSON, CHUNKED) + b"ZZZ\r\n", 400),
    "chunks and a length": (request(b"POST", CONFIGMAPS, JSON, CHUNKED, b"Content-Length: 3") + b"0\r\n\r\n", 400),
    "two lengths": (request(b"POST", CONFIGMAPS, JSON, b"Content-Length: 2", b"Content-Length: 3") + b"{}", 400),
    "a negative length": (request(b"POST", CONFIGMAPS, JSON, b"Content-Length: -2"), 400),
    "a length beyond numbers": (request(b"POST", CONFIGMAPS, JSON, b"Content-Length: " + b"9" * 30), 400),
    "gzip": (post(gzip.compress(SMALL), b"Content-Encoding: gzip"), 201),
    "deflate": (post(zlib.compress(SMALL), b"Content-Encoding: deflate"), 201),
    "no gzip": (post(b"\x1f\x8bgarbage", b"Content-Encoding: gzip"), 400),
    "half of a gzip": (post(gzip.compress(SMALL)[:-9], b"Content-Encoding: gzip"), 400),
    "a gzip bomb": (lambda: post(gzip.compress(bytes(100_000_000)), b"Content-Encoding: gzip"), 413),
    "another encoding": (post(SMALL, b"Content-Encoding: br"), 400),
    "leave to continue": (post(SMALL, b"Expect: 100-continue"), 100),
    "HEAD": (request(b"HEAD", CONFIGMAPS + b"/none"), 404),
}


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """An API server; in the end no process has died."""
    with running_plane() as started:
        yield started
        assert [started.processes[name].poll() for name in started.processes] == [None] * len(started.processes)
        assert not started.tracebacks()


@pytest.mark.parametrize("what", WORDS)
def test_words(plane: Plane, what: str) -> None:
    words, wanted = WORDS[what]
    answer = said(plane, words() if callable(words) else words)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.split(b" ")[1] == b"%d" % wanted, answer[:500]
    if wanted >= 400 and b"application/json" in head and not what.startswith("HEAD"):
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
        assert fault("", Answer(wanted, headers, body)) == ""


def test_continue_is_followed_by_the_answer(plane: Plane) -> None:
    """The body is sent only after leave was given, as curl does."""
    head, body = post(SMALL, b"Expect: 100-continue").split(b"\r\n\r\n")
    with connected(plane) as tls:
        tls.settimeout(30)
        tls.sendall(head + b"\r\n\r\n")
        assert tls.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        tls.sendall(body)
        assert tls.recv(1000).startswith(b"HTTP/1.1 201")


def test_pipelined_requests_are_answered_in_order(plane: Plane) -> None:
    paths = [b"/version", CONFIGMAPS, b"/no/such", CONFIGMAPS + b"/none"] * 10
    many = b"".join(b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % path for path in paths)
    answers = said(plane, many + request(b"GET", b"/healthz")).split(b"HTTP/1.1 ")[1:]
    assert [int(answer[:3]) for answer in answers] == [200, 200, 404, 404] * 10 + [200]


def test_silent_and_slow_clients_are_in_nobodys_way(plane: Plane) -> None:
    """Connections without a handshake, without a request, with half a header, with half a body; then they drip."""
    starts = [b"", b"GET " + CONFIGMAPS + b" HTTP/1.1\r\nHo", request(b"POST", CONFIGMAPS, JSON, b"Content-Length: 9")]
    client = Client(plane.port, plane.tls())
    with ExitStack() as held:
        slow = []
        for _ in range(20):
            held.enter_context(socket.create_connection(("127.0.0.1", plane.port), timeout=30))
            for start in starts:
                tls = held.enter_context(connected(plane))
                tls.sendall(start)
                slow.append(tls)
        began = time.monotonic()
        for number in range(20):
            slow[number].sendall(b"x")
            assert client.ask("GET", "/readyz").status == 200
        assert time.monotonic() - began < 15
    client.close()


def test_large_mistakes_get_small_answers(plane: Plane) -> None:
    """Three megabytes of broken fields, and what they do to memory."""
    client = Client(plane.port, plane.tls())
    process = psutil.Process(plane.processes["apiserver-0"].pid)
    before = process.memory_info().rss
    labels = {"metadata": {"name": "a", "labels": {f"-{n}": "" for n in range(50_000)}}}
    rules = {"metadata": {"name": "a"}, "rules": [{}] * 50_000}
    unknown = {"metadata": {"name": "a"}, **{f"u{n}": n for n in range(50_000)}}
    named = {"metadata": {"name": "x" * 2_000_000}}
    copies = [{"op": "copy", "from": "", "path": f"/x{n}"} for n in range(100)]
    maps, roles = CONFIGMAPS.decode(), "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    for method, path, body, code in (
        ("POST", maps, labels, 422),
        ("POST", roles, rules, 422),
        ("POST", maps, named, 422),
        ("POST", maps, unknown, 201),
        ("PATCH", f"{maps}/a", copies, 413),
        ("PATCH", f"{maps}/a", [{"op": "test", "path": "", "value": {}}] * 10_001, 413),
        ("PATCH", f"{maps}/a", [{"op": "add", "path": "/data", "value": {}}] * 10_000, 200),
    ):
        media = "application/json" if method == "POST" else "application/json-patch+json"
        answer = client.ask(method, path, json.dumps(body).encode(), {"Content-Type": media})
        assert (answer.status, fault(method, answer)) == (code, ""), answer.body[:500]
        assert len(answer.body) < 100_000
        assert sum(map(len, answer.headers.values())) < 8192
    client.close()
    assert (process.memory_info().rss - before) / 2**20 < GROWTH_MIB
