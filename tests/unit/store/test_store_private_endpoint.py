"""The private endpoint: a client that has gone costs nothing, and one whose watch ends hears why."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock, call

import pytest
from google.protobuf.message import Message

from actors.store.model.errors import HistoryDamaged
from actors.store.server.private_endpoint import PrivateEndpoint, ServedConnection
from protocols.etcd.transport.frames import ERROR, GATHERED, GREETING, NUMBERS, OK, WATCH, FrameWriter, pack
from protocols.wire import etcd_pb2 as pb

ASKED = 2000


@pytest.mark.parametrize(
    "close_client", [lambda connection: connection.connection_lost(None), ServedConnection.resume_writing]
)
async def test_private_endpoint_closed_computes_no_answer(
    close_client: Callable[[ServedConnection], None],
) -> None:
    """The connection is reported lost, or a write has failed and the loss is not reported yet."""

    made: list[bytes] = []
    closing = False

    async def answer(body: bytes) -> Message:
        made.append(body)
        return pb.RangeResponse()

    number = NUMBERS["KV/Range"]
    connection = ServedConnection(PrivateEndpoint(Path("/none"), {}, Mock()), {number: answer}, Mock())
    transport = Mock(is_closing=lambda: closing)
    connection.connection_made(transport)
    connection.pause_writing()
    connection.data_received(GREETING + b"".join(pack(call, number, b"") for call in range(ASKED)))
    await asyncio.sleep(0)
    closing = True
    close_client(connection)
    for _ in range(5):
        await asyncio.sleep(0)
    assert made == []
    assert not connection._tasks


async def test_private_endpoint_says_why_a_watch_ended() -> None:
    async def watch(requests: object, writer: object) -> None:
        raise HistoryDamaged("etcdserver: corrupt cluster")

    endpoint = PrivateEndpoint(Path("/none"), {}, Mock())
    connection = ServedConnection(endpoint, {}, watch)
    transport = Mock(is_closing=lambda: False)
    connection.connection_made(transport)
    connection.data_received(GREETING + pack(3, NUMBERS[WATCH], pb.WatchRequest().SerializeToString()))
    for _ in range(5):
        await asyncio.sleep(0)
    transport.write.assert_called_with(pack(3, ERROR, b"DATA_LOSS\0etcdserver: corrupt cluster"))
    transport.close.assert_called_once()
    transport.abort.assert_not_called()  # by which a task that fails unexpectedly ends it
    assert not connection._tasks


async def test_private_endpoint_answers_of_one_turn_share_a_write() -> None:
    async def answer(body: bytes) -> Message:
        return pb.RangeResponse(count=1)

    number = NUMBERS["KV/Range"]
    connection = ServedConnection(PrivateEndpoint(Path("/none"), {}, Mock()), {number: answer}, Mock())
    transport = Mock(is_closing=lambda: False)
    connection.connection_made(transport)
    connection.data_received(GREETING + b"".join(pack(call, number, b"") for call in range(3)))
    for _ in range(5):
        await asyncio.sleep(0)
    body = pb.RangeResponse(count=1).SerializeToString()
    transport.write.assert_called_once_with(b"".join(pack(call, OK, body) for call in range(3)))


async def test_frame_writer_large_frame_is_written_at_once() -> None:
    transport = Mock(is_closing=lambda: False)
    writer = FrameWriter(transport)
    writer.write(b"small")
    transport.write.assert_not_called()
    writer.write(bytes(GATHERED))
    transport.write.assert_called_once_with(b"small" + bytes(GATHERED))
    await asyncio.sleep(0)
    transport.write.assert_called_once()


async def test_frame_writer_close_writes_before() -> None:
    transport = Mock(is_closing=lambda: False)
    writer = FrameWriter(transport)
    writer.write(b"last")
    writer.close()
    assert transport.mock_calls == [call.write(b"last"), call.close()]
