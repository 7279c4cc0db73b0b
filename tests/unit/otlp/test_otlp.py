"""Spans on their way to an OpenTelemetry receiver."""

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from resource import RUSAGE_SELF, getrusage
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.trace import SpanKind, StatusCode
from prometheus_client import CollectorRegistry

from actors.otlp import bounded_session, exporter
from actors.otlp.actor import Otlp
from actors.otlp.exporter import Exporter
from actors.otlp.mapping import Mapper
from actors.otlp.pending import LONGEST_S, SETTLE_S, Pending
from protocols.actor import Context
from protocols.messages.trace import Span
from tests.support.otlp_receiver import otlp_receiver

POD = "0b9d8e5e-3f6f-4c7e-9a66-9c7b4a1c2d3e"


def made(name: str, actor: str = "podworker", pod: str = POD, **attributes: str) -> Span:
    return Span(pod, name, 100, 50, attributes, actor, 7)


def test_pending_holds_a_pod_until_it_is_quiet() -> None:
    pending = Pending()
    pending.add([made("a")], 0.0)
    pending.add([made("b"), made("c", pod="other")], 1.0)
    assert pending.due(SETTLE_S) == []
    assert [[span.name for span in spans] for spans in pending.due(1.0 + SETTLE_S)] == [["a", "b"], ["c"]]
    assert len(pending) == 0


def test_pending_holds_a_busy_pod_not_for_ever() -> None:
    pending, now = Pending(), 0.0
    while now < LONGEST_S:
        pending.add([made("a")], now)
        assert pending.due(now) == []
        now += 0.5
    pending.add([made("a")], now)
    assert len(pending.due(now)) == 1


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9))), st.integers(1, 20))
def test_pending_is_bounded_and_counts_what_it_drops(added: list[tuple[int, int]], most: int) -> None:
    pending = Pending(most)
    for pod, count in added:
        pending.add([made("a", pod=str(pod))] * count, 0.0)
        assert len(pending) <= most
    kept = sum(len(spans) for spans in pending.all())
    assert kept + pending.dropped == sum(count for _, count in added)


def test_mapping_of_a_driver_call_is_a_grpc_client_span() -> None:
    span = made("NodePrepareResources", "devices", driver="gpu.example.com", error="no such device")
    [found] = Mapper("n1", "host", "1.0").spans([span], 10**18)
    assert found.name == "DRAPlugin/NodePrepareResources"
    assert found.kind is SpanKind.CLIENT
    assert found.status.status_code is StatusCode.ERROR
    assert dict(found.attributes or {}) == {
        "k8s.pod.uid": POD,
        "rpc.system": "grpc",
        "rpc.service": "DRAPlugin",
        "rpc.method": "NodePrepareResources",
        "nodeplane.driver": "gpu.example.com",
        "error.type": "_OTHER",
    }
    assert (found.start_time, found.end_time) == (10**18 + 100, 10**18 + 150)
    assert found.resource.attributes["k8s.node.name"] == "n1"


def test_mapping_of_a_further_node_names_it() -> None:
    [found] = Mapper("n1", "host", "1.0").spans([made("sync", "n1-2/podworker")], 0)
    assert found.resource.attributes["service.name"] == "podworker"
    assert found.resource.attributes["k8s.node.name"] == "n1-2"


def test_exporter_counts_what_a_receiver_rejects() -> None:
    with otlp_receiver() as receiver:
        sending = Exporter(f"{receiver.url}/v1/traces", "n1")
        assert sending.export([[made("a")], [made("b", pod="static-pod")]]) == (2, 0)
        receiver.status = 400
        assert sending.export([[made("c")]]) == (0, 1)
        sending.close()
    assert {span.name for span in receiver.spans} == {"a", "b"}


class Deadline:
    """The timer of a request: due when the receiver says so, however busy the machine is."""

    daemon = True

    def __call__(self, seconds: float, pass_deadline: Callable[[], None]) -> "Deadline":
        self.pass_ = pass_deadline
        return self

    def start(self) -> None:
        """Wait for the receiver."""

    def cancel(self) -> None:
        """Leave it to the next request."""


DEADLINE = Deadline()


def _drip(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    _drip_on(handler, b"x")


def _drip_headers(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    _drip_on(handler, b"X-A: 1\r\n")


def _drip_on(handler: BaseHTTPRequestHandler, drop: bytes) -> None:
    for number in itertools.count():
        handler.wfile.write(drop)
        if number == 3:
            DEADLINE.pass_()
        time.sleep(0.1)


def _never_end(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(b"x" * 1_000_000)


def _send_elsewhere(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(307)
    handler.send_header("Location", "/elsewhere")
    handler.send_header("Content-Length", "0")
    handler.end_headers()


@contextmanager
def hostile(respond: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[tuple[str, list[str]]]:
    """A receiver that takes the spans and answers so; its address and the paths that were asked for."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # the name that http.server wants
            paths.append(self.path)
            self.rfile.read(int(self.headers["Content-Length"]))
            with suppress(OSError):
                respond(self)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1/traces", paths
        server.shutdown()


@pytest.mark.parametrize("respond", [_drip, _drip_headers, _never_end, _send_elsewhere])
def test_receiver_that_never_ends_its_answer_costs_the_deadline_and_little_memory(
    respond: Callable[[BaseHTTPRequestHandler], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporter, "TIMEOUT_S", 60.0)  # of a read, on a busy machine, too
    monkeypatch.setattr(bounded_session, "threading", SimpleNamespace(Timer=DEADLINE))
    with hostile(respond) as (url, paths):
        sending, before = Exporter(url, "n1"), getrusage(RUSAGE_SELF).ru_maxrss
        done: list[tuple[int, int]] = []
        thread = threading.Thread(target=lambda: done.append(sending.export([[made("a")]])), daemon=True)
        thread.start()
        thread.join(120)
        assert len(done) == 1, "the export goes on after its deadline"
        assert getrusage(RUSAGE_SELF).ru_maxrss - before < 100 * 1024
        assert set(paths) == {"/v1/traces"}
        expected = {(0, 1)} if respond is _send_elsewhere else {(1, 0)}
        if respond is _drip_headers:
            expected.add((0, 1))  # they may break off at the deadline
        assert done[0] in expected, "the status came in time"
        sending.close()


async def test_stop_waits_for_the_export_in_progress_and_then_sends_the_rest() -> None:
    """One request at a time: a second one would close the connection of the first."""
    begun, let_end = threading.Event(), threading.Event()
    at_once, most, sent = 0, 0, list[str]()

    class Slow:
        def export(self, pods: list[list[Span]]) -> tuple[int, int]:
            nonlocal at_once, most
            at_once += 1
            most = max(most, at_once)
            begun.set()
            let_end.wait()
            at_once -= 1
            sent.extend(span.name for pod in pods for span in pod)
            return len(pods), 0

        def close(self) -> None:
            """Nothing is open."""

    otlp = Otlp(cast(Context, SimpleNamespace(registry=CollectorRegistry())))
    otlp._exporter = cast(Exporter, Slow())
    exporting = asyncio.create_task(otlp._send([[made("a")]]))
    await asyncio.to_thread(begun.wait)
    otlp._pending.add([made("b")], 0.0)
    stopping = asyncio.create_task(otlp.stop())
    for _ in range(9):
        await asyncio.sleep(0)
    let_end.set()
    await asyncio.gather(exporting, stopping)
    assert (most, sent) == (1, ["a", "b"])
