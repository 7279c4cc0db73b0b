"""The socket of the front door: who comes in is known, counted and bounded; what is no HTTP/2 gets nowhere."""

import asyncio
import contextlib
import logging
import os
import resource
import socket
import stat
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from actors.frontdoor.serving import endpoint
from actors.frontdoor.serving.errors import MetadataInvalid
from actors.frontdoor.serving.listener import UNKNOWN_PEER, ConnectionLimits, Peer
from actors.frontdoor.serving.pacing import UNANSWERED
from actors.frontdoor.serving.relay import PREFACE
from actors.frontdoor.serving.server import MAX_STREAMS_OF_CLIENT
from protocols.bus import Event, Op
from protocols.messages.devices import PodAllocation
from protocols.wire import podresources_v1_pb2 as v1
from protocols.wire.methods import CLIENT_OPTIONS, MAX_REQUEST, unix_channel
from protocols.wire.pod_resources import LIST, LIST_AND_WATCH
from tests.support.device_node import until
from tests.support.front_door import Door, DoorLimits, Lines, running_front_door
from tests.support.pod_resources_client import Agent, headers_of


def added(number: int) -> Event[PodAllocation]:
    return Event(Op.UPSERT, f"p{number}", PodAllocation(f"p{number}", "d", f"p{number}"), mark=1 + number)


def refusals(door: Door, reason: str) -> float:
    return door.registry.get_sample_value(
        "nodeplane_pod_resources_connections_refused_total", {"reason": reason}
    ) or 0.0  # fmt: skip


async def test_access_log_names_process_and_call() -> None:
    async with running_front_door() as door:
        agent = Agent(door.socket)
        await agent.list_all()
        await agent.list_all()
        await agent.allocatable()
        await agent.close()
        line = await until("its line", lambda: next((line for line in door.access.lines if "disconnected" in line), ""))
        who = f"access: client disconnected pid={os.getpid()} uid={os.getuid()} gid={os.getgid()} command="
        assert line.startswith(who)
        assert line.endswith(" calls=GetAllocatableResources:1,List:2")


async def test_socket_has_mode_and_group() -> None:
    async with running_front_door(DoorLimits(mode=0o660)) as door:
        seen = door.socket.stat()
        assert (stat.S_IMODE(seen.st_mode), seen.st_gid) == (0o660, os.getgid())
        assert {path.name for path in door.directory.iterdir()} == {"kubelet.sock", "inner"}


def test_access_log_many_calls_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    now, lines, log = 100.0, Lines(), logging.Logger("access", logging.INFO)
    log.addHandler(lines)
    monkeypatch.setattr(time, "monotonic", lambda: now)
    access_log = endpoint.AccessLog(log)
    for _ in range(80):
        access_log.connection_rejected(UNKNOWN_PEER, "garbage")
    assert len(lines.lines) == 50
    now = 101.0
    access_log.connection_rejected(UNKNOWN_PEER, "garbage")
    assert lines.lines[50:] == [
        "access: connection rejected pid=0 uid=-1 gid=-1 command=? reason=garbage suppressed_lines=30"
    ]


def test_access_log_text_of_a_client_stays_one_field() -> None:
    lines, log = Lines(), logging.Logger("access", logging.INFO)
    log.addHandler(lines)
    error = MetadataInvalid('"x" code=OK message="fine" is not a revision')
    endpoint.AccessLog(log).watch_failed(UNKNOWN_PEER, "ListAndWatch", error)
    assert lines.lines == [
        "access: watch ended pid=0 uid=-1 gid=-1 command=? method=ListAndWatch code=INVALID_ARGUMENT "
        r'message="\"x\" code=OK message=\"fine\" is not a revision"'
    ]


UNARY = ("/v1.PodResourcesLister/Get", "/v1alpha1.PodResourcesLister/List", "/grpc.health.v1.Health/Check")
STREAMS = ("/v1.PodResourcesLister/ListAndWatch", "/grpc.health.v1.Health/Watch")
BIDIRECTIONAL = ("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",)


async def test_request_unparsable_is_one_error_and_no_log_line(caplog: pytest.LogCaptureFixture) -> None:
    garbage, answered = b"\xff\xff\xff", {}
    async with running_front_door() as door, unix_channel(door.socket) as opened:
        channel: Any = opened  # its types know messages only
        calls = [(path, channel.unary_unary(path)(garbage)) for path in UNARY]
        calls += [(path, channel.unary_stream(path)(garbage)) for path in STREAMS]
        calls += [(path, channel.stream_stream(path)([garbage])) for path in BIDIRECTIONAL]
        for path, call in calls:
            answered[path] = (await call.code(), await call.details())
    assert answered == {
        path: (
            grpc.StatusCode.INTERNAL,
            f"the request to {path.rpartition('/')[2]} is not a valid message of its type",
        )
        for path in (*UNARY, *STREAMS, *BIDIRECTIONAL)
    }
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_request_is_bounded_before_it_is_parsed() -> None:
    """Parsing 16 MiB takes 0.1 to 0.4 s, and comes before the rate limit."""
    largest = b"\x7a\xfc\xff\x03" + bytes(MAX_REQUEST - 4)  # one field that no method knows
    async with (
        running_front_door(DoorLimits(health="127.0.0.1:0")) as door,
        unix_channel(door.socket) as opened,
        grpc.aio.insecure_channel(f"127.0.0.1:{door.server.health_port}") as over_tcp,
    ):
        channel: Any = opened
        health: Any = over_tcp
        calls = [channel.unary_unary(path) for path in UNARY] + [health.unary_unary(UNARY[-1])]
        for call in calls[1:]:
            await call(largest, timeout=60)
        for call in (*calls, *map(channel.unary_stream, STREAMS)):
            assert await call(largest + b"\0", timeout=60).code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        for path in BIDIRECTIONAL:
            stream = channel.stream_stream(path)([largest + b"\0"], timeout=60)
            assert await stream.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_entrance_garbage_is_refused() -> None:
    async with running_front_door() as door:
        for words in (b"GET / HTTP/1.1\r\n\r\n", b"\0", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\rx"):
            reader, writer = await asyncio.open_unix_connection(str(door.socket))
            writer.write(words)
            await gone(reader)
            writer.close()
        await until("three refusals", lambda: refusals(door, "garbage") == 3)


async def test_health_check_stale_state_is_not_serving() -> None:
    async with running_front_door() as door, unix_channel(door.socket) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        check = health_pb2.HealthCheckRequest
        for service in ("", "v1.PodResourcesLister", "v1alpha1.PodResourcesLister"):
            assert (await stub.Check(check(service=service))).status == health_pb2.HealthCheckResponse.SERVING
        watch = stub.Watch(check(service="v1.PodResourcesLister"))
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
        door.server.set_serving(False)
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        assert (await stub.Check(check())).status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.aio.AioRpcError) as unknown:
            await stub.Check(check(service="v9.Nothing"))
        assert unknown.value.code() is grpc.StatusCode.NOT_FOUND
        watch.cancel()


FLOOD = """
import asyncio, sys
from protocols.wire import podresources_v1_pb2 as v1
from protocols.wire.methods import unix_channel
from protocols.wire.pod_resources import LIST

async def main():
    channels = [unix_channel(sys.argv[1]) for _ in range(8)]
    await asyncio.gather(*(LIST.unary(c)(v1.ListPodResourcesRequest()) for _ in range(500) for c in channels))

asyncio.run(main())
"""
"""4,000 calls at once."""


async def test_call_is_not_behind_thousands_of_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_front_door() as door:
        agent, admit, callers = Agent(door.socket), door.endpoint.admit, list[int]()

        def noting(context: Any, method: str) -> Peer:
            peer = admit(context, method)
            callers.append(peer.pid)
            return peer

        monkeypatch.setattr(door.endpoint, "admit", noting)
        await agent.list_all()
        flood = await asyncio.create_subprocess_exec(sys.executable, "-c", FLOOD, str(door.socket))
        await until("the flood", lambda: len(callers) > 1500, timeout=60)
        before = len(callers)
        await agent.list_all()
        ahead = callers.index(os.getpid(), before) - before
        assert await flood.wait() == 0
        await agent.close()
    assert len(callers) == 4002, "all were answered"
    assert ahead < 10 * UNANSWERED


@pytest.mark.parametrize("path", [STREAMS[1], *BIDIRECTIONAL])
async def test_standard_streams_of_one_client_are_bounded(path: str) -> None:
    async def replied(call: Any) -> bool:
        await call.read()
        return not call.done()

    async with running_front_door() as door, unix_channel(door.socket) as opened:
        channel: Any = opened
        request = reflection_pb2.ServerReflectionRequest(list_services="").SerializeToString()

        async def requests() -> AsyncIterator[bytes]:
            yield request
            await asyncio.Event().wait()

        def begin() -> Any:
            return channel.stream_stream(path)(requests()) if path in BIDIRECTIONAL else channel.unary_stream(path)(b"")

        streams = [begin() for _ in range(MAX_STREAMS_OF_CLIENT)]
        assert all([await replied(stream) for stream in streams])
        beyond = begin()
        assert await beyond.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await beyond.details() == "64 watches are open already in this process; close one"
        streams.pop().cancel()
        await until("a place is free", lambda: replied(begin()))
        for stream in streams:
            stream.cancel()


async def test_health_over_tcp_serves_health_only() -> None:
    async with (
        running_front_door(DoorLimits(health="127.0.0.1:0")) as door,
        grpc.aio.insecure_channel(f"127.0.0.1:{door.server.health_port}") as channel,
    ):
        stub = health_pb2_grpc.HealthStub(channel)
        request = health_pb2.HealthCheckRequest(service="v1.PodResourcesLister")
        assert (await stub.Check(request, timeout=60)).status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await LIST.unary(channel)(v1.ListPodResourcesRequest(), timeout=60)
        assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_reflection_lists_every_service() -> None:
    async with running_front_door() as door, unix_channel(door.socket) as channel:
        call = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo()
        await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
        names = {item.name for item in (await call.read()).list_services_response.service}
        assert {"v1.PodResourcesLister", "v1alpha1.PodResourcesLister", "grpc.health.v1.Health"} <= names
        await call.write(reflection_pb2.ServerReflectionRequest(file_containing_symbol="v1.PodResourcesLister"))
        [file] = (await call.read()).file_descriptor_response.file_descriptor_proto
        assert b"ListAndWatchAllocatableResources" in file
        await call.done_writing()


async def test_reflection_of_first_version_is_answered() -> None:
    async with running_front_door() as door, unix_channel(door.socket) as channel:
        call = channel.stream_stream(
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
            request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
            response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
        )()
        await call.write(reflection_pb2.ServerReflectionRequest(file_containing_symbol="v1.PodResourcesLister"))
        answer: Any = await call.read()
        [file] = answer.file_descriptor_response.file_descriptor_proto
        assert b"ListAndWatch" in file
        await call.done_writing()


async def test_watch_silent_with_pings_stays_open() -> None:
    pinging = (
        ("grpc.keepalive_time_ms", 100),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.keepalive_permit_without_calls", 1),
    )

    async with (
        running_front_door() as door,
        grpc.aio.insecure_channel(f"unix:{door.socket}", options=(*CLIENT_OPTIONS, *pinging)) as channel,
    ):
        call = LIST_AND_WATCH.stream(channel)(v1.ListAndWatchPodResourcesRequest())
        await headers_of(call)
        await asyncio.sleep(1.0)
        door.pods.on_event(added(1))
        assert (await asyncio.wait_for(call.read(), 60)).uid == "p1"


async def test_connections_of_one_process_are_bounded() -> None:
    limits = DoorLimits(connections=ConnectionLimits(per_client=8, preface_timeout_s=1.0))

    async with running_front_door(limits) as door:
        agent = Agent(door.socket)
        watch = await agent.watch()
        silent = [await asyncio.open_unix_connection(str(door.socket)) for _ in range(20)]
        silent[0][1].write(PREFACE[:10])
        await asyncio.gather(*(gone(reader) for reader, _ in silent))
        assert refusals(door, "silent") >= 7
        assert refusals(door, "client") + refusals(door, "silent") == 20
        door.pods.on_event(added(1))
        assert (await watch.next()).uid == "p1"
        for _, writer in silent:
            writer.close()
        await agent.close()


async def test_connections_half_open_delay_nobody() -> None:
    async with running_front_door() as door:
        agent = Agent(door.socket)
        watch = await agent.watch()
        halves = []
        for words in (PREFACE, PREFACE + b"\0\0\0\x04\0\0\0\0\0", PREFACE + b"\xff" * 5000, PREFACE + b"\0\0\x10\1"):
            reader, writer = await asyncio.open_unix_connection(str(door.socket))
            writer.write(words)
            writer.write_eof()
            halves.append((reader, writer))
        door.pods.on_event(added(1))
        assert (await watch.next()).uid == "p1"
        await asyncio.gather(*(gone(reader) for reader, _ in halves))
        for _, writer in halves:
            writer.close()
        await until("only the agent is left", lambda: len(door.endpoint.listener) == 1)
        await agent.close()


async def test_connections_ten_thousand_leave_open_ones_alone() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft >= 1000 or hard >= 1000
    async with running_front_door() as door:
        agent = Agent(door.socket)
        watch = await agent.watch()
        inside = [dial(door) for _ in range(300)]
        for number in range(1, 11):
            for _ in range(970):
                if (caller := dial(door)) is not None:
                    caller.close()
            door.pods.on_event(added(number))
            assert (await watch.next()).uid == f"p{number}"
        assert len(door.endpoint.listener) <= 256
        for held in filter(None, inside):
            held.close()
        await until("their end", lambda: len(door.endpoint.listener) == 1)
        await agent.list_all()
        await agent.close()


def dial(door: Door) -> socket.socket | None:
    """A raw connection; None while the backlog is full."""
    caller = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    caller.setblocking(False)
    try:
        caller.connect(str(door.socket))
    except BlockingIOError:
        caller.close()
        return None
    return caller


async def gone(reader: asyncio.StreamReader) -> None:
    with contextlib.suppress(ConnectionError):
        while await asyncio.wait_for(reader.read(65536), 60):
            pass
