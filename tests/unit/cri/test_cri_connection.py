"""The event stream's retries follow KEP-3386's table, and only a settled stream clears the count."""

import asyncio
import contextlib
import struct
from pathlib import Path
from unittest.mock import Mock

import grpc
import pytest

from actors.cri.actor import runtime_note
from actors.cri.event_stream import STABLE_S, EventConnection, Phase, retry_delay
from actors.cri.grpc_calls import AHEAD, AHEAD_BYTES, GrpcCalls, ServerStream
from actors.cri.operations import Operation
from actors.cri.runtime_client import Lists, ListTooLong, RuntimeChannel, Streaming
from actors.cri.runtime_status import (
    MAX_HANDLERS,
    RETRY_S,
    SILENCE_S,
    SLOW_AFTER,
    SLOW_S,
    STATUS_S,
    StatusPoller,
    StatusPollerOptions,
    handlers_of,
    network_problem,
    poll_delay,
)
from protocols.http2 import frames as h2
from protocols.http2.connection import Address
from protocols.http2.frames import PREFACE, Splitter, pack
from protocols.http2.hpack import Encoder
from protocols.messages.cri import RuntimeHandler, RuntimeState
from protocols.wire import cri_pb2


def test_probe_healthy_runtime_is_rare() -> None:
    assert poll_delay(0, 12.3) == poll_delay(SLOW_AFTER - 1, 12.3) == STATUS_S
    assert poll_delay(SLOW_AFTER, 12.5) == 7.5
    assert poll_delay(SLOW_AFTER, 20.0) == SLOW_S
    assert SLOW_S + STATUS_S + RETRY_S < SILENCE_S, "the poll that fails, and another one, come before the limit"


async def test_socket_that_is_not_there_is_named() -> None:
    calls = GrpcCalls(Address(path="/gone.sock"))
    with pytest.raises(grpc.aio.AioRpcError, match=r"cannot connect to /gone\.sock: No such file or directory"):
        await calls.unary("/a/b", b"", 5.0)


@pytest.mark.parametrize("read", [AHEAD + 10, 1], ids=["to its end", "in part"])
async def test_stream_of_one_burst_leaves_the_connection_readable(read: int, tmp_path: Path) -> None:
    path, served = tmp_path / "rt.sock", asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _answer_in_bursts(reader, writer)
        served.set()

    server = await asyncio.start_unix_server(serve, path)
    calls = GrpcCalls(Address(path=str(path)))
    try:
        stream = await calls.stream("/a/stream", b"")
        assert [await stream.read() for _ in range(read)] == [b"x"] * read
        if read > 1:
            assert await stream.read() is None
        stream.cancel()
        assert await calls.unary("/a/unary", b"", 10.0) == b"x"
    finally:
        calls.close()
        await served.wait()
        server.close()
        await server.wait_closed()


async def test_few_large_messages_of_a_stream_pause_the_connection() -> None:
    calls, message = Mock(), bytes(AHEAD_BYTES // 2)
    stream = ServerStream(calls)
    for _ in range(3):
        calls.pause.assert_not_called()
        stream.on_message(message)
    calls.pause.assert_called_once_with(True)
    assert [await stream.read() for _ in range(3)] == [message] * 3
    stream.on_message(message)
    calls.pause.assert_called_once()


async def test_probe_answered_with_a_long_list_finds_that_lists_are_streamed() -> None:
    class Channel(RuntimeChannel):
        async def pieces(self, operation: Operation, request: bytes, timeout: float) -> bytes:
            raise ListTooLong("the filter is ignored")

    lists = Lists(Channel("/gone.sock"))
    await lists.probe()
    assert lists.streaming is Streaming.YES


async def _answer_in_bursts(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send headers, messages and trailers of each call in one write: many messages for the first, then one each."""
    writer.write(pack(h2.SETTINGS, 0, 0))
    splitter, encoder, count = Splitter(), Encoder(), AHEAD + 10
    data = (await reader.readexactly(len(PREFACE)))[len(PREFACE) :]
    while data := data or await reader.read(65_536):
        for kind, _, stream, _ in splitter.feed(data):
            if kind == h2.HEADERS:
                messages = struct.pack(">BI1s", 0, 1, b"x") * count
                begin = pack(h2.HEADERS, h2.END_HEADERS, stream, encoder.encode(((b":status", b"200"),)))
                end = encoder.encode(((b"grpc-status", b"0"),))
                writer.write(
                    begin
                    + pack(h2.DATA, 0, stream, messages)
                    + pack(h2.HEADERS, h2.END_HEADERS | h2.END_STREAM, stream, end)
                )
                count = 1
        data = b""
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


def test_retry_delay_follows_the_kep() -> None:
    assert [retry_delay(n) for n in range(1, 12)] == [0, 1, 2, 4, 8, 16, 32, 64, 60, 60, 60]


@pytest.mark.scenario("S1")
def test_stream_runtime_dead_retries_by_table() -> None:
    connection, now, attempts = EventConnection(), 0.0, []
    for _ in range(11):
        attempts.append(now)
        now += connection.failed(now)
        connection.connecting()
    assert attempts == [0, 0, 1, 3, 7, 15, 31, 63, 127, 187, 247]
    assert connection.failures == 11


def test_stream_breaking_at_once_keeps_backing_off() -> None:
    connection, now, delays = EventConnection(), 0.0, []
    for _ in range(4):
        connection.opened(now)
        delays.append(connection.failed(now + 0.01))
    assert delays == [0, 1, 2, 4]


def test_stream_stable_clears_failures() -> None:
    connection = EventConnection()
    for _ in range(4):
        connection.failed(0.0)
    connection.opened(10.0)
    assert connection.failed(10.0 + STABLE_S) == 0.0
    assert connection.failures == 1


def test_stream_unsupported_stays_until_an_attempt_fails_or_opens() -> None:
    connection = EventConnection()
    connection.unsupported(0.0)
    connection.connecting()
    phases = [connection.phase]
    connection.opened(700.0)
    assert [*phases, connection.phase] == [Phase.UNSUPPORTED, Phase.STREAMING]


def test_stream_unsupported_and_disconnected_at_once_backs_off() -> None:
    connection, delays = EventConnection(), []
    for _ in range(4):
        connection.unsupported(0.0)
        delays.append(connection.failed(0.01))
    assert delays == [0, 1, 2, 4]
    connection.unsupported(10.0)
    assert connection.failed(10.0 + STABLE_S) == 0.0


@pytest.mark.parametrize(
    ("ready", "says"),
    [
        (None, ""),
        (True, ""),
        (False, "container runtime network not ready: NetworkReady=false reason:NoPlugin message:no cni"),
    ],
)
def test_runtime_network_not_ready_tells_reason(ready: bool | None, says: str) -> None:
    conditions = [cri_pb2.RuntimeCondition(type="RuntimeReady", status=True)]
    if ready is not None:
        network = cri_pb2.RuntimeCondition(type="NetworkReady", status=ready, reason="NoPlugin", message="no cni")
        conditions.append(network)
    reply = cri_pb2.StatusResponse(status=cri_pb2.RuntimeStatus(conditions=conditions))
    assert network_problem(reply) == says
    note = runtime_note(RuntimeState(connected=True, streaming=True, name="c", version="1", network=says), True)
    assert note == ("c 1, events streaming" + (f", pods get no network of their own ({says})" if says else ""))


def test_runtime_handlers_are_read_with_their_features_and_bounded() -> None:
    features = cri_pb2.RuntimeHandlerFeatures(recursive_read_only_mounts=True)
    handlers = [cri_pb2.RuntimeHandler(name="", features=features), cri_pb2.RuntimeHandler(name="kata")]
    reply = cri_pb2.StatusResponse(runtime_handlers=handlers)
    assert handlers_of(reply) == (
        RuntimeHandler("", recursive_read_only=True),
        RuntimeHandler("kata"),
    )
    many = cri_pb2.StatusResponse(runtime_handlers=[cri_pb2.RuntimeHandler(name=str(n)) for n in range(1000)])
    assert len(handlers_of(many)) == MAX_HANDLERS


async def test_version_of_a_runtime_that_was_replaced_during_the_answer_is_asked_again() -> None:
    reported = list[str]()

    async def run(operation: str, request: bytes, timeout: float) -> bytes:
        if operation == "Status":
            ready = cri_pb2.RuntimeCondition(type="RuntimeReady", status=True)
            status = cri_pb2.RuntimeStatus(conditions=[ready])
            return cri_pb2.StatusResponse(status=status).SerializeToString()
        version = "2" if reported else "1"
        if version == "1":
            poller.poll_now()  # the event stream breaks: the runtime is stopped for another version
        answer = cri_pb2.VersionResponse(
            version="0.1.0", runtime_name="r", runtime_version=version, runtime_api_version="v1"
        )
        return answer.SerializeToString()

    nobody = Mock()
    poller = StatusPoller(StatusPollerOptions(run, lambda report: reported.append(report.info.version), nobody, nobody))
    assert await poller._check()
    assert await poller._check()
    assert await poller._check()
    assert reported == ["1", "2", "2"]
