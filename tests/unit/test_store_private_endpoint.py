"""The private endpoint: answers for a client that has gone are not computed."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
from google.protobuf.message import Message

from actors.store.server.private_endpoint import Connection, PrivateEndpoint
from protocols.etcd.transport.frames import GREETING, NUMBERS, pack
from protocols.wire import etcd_pb2 as pb

ASKED = 2000


@pytest.mark.parametrize(
    "close_client", [lambda connection: connection.connection_lost(None), Connection.resume_writing]
)
async def test_private_endpoint_closed_computes_no_answer(
    close_client: Callable[[Connection], None],
) -> None:
    """The connection is reported lost, or a write has failed and the loss is not reported yet."""

    made: list[bytes] = []
    closing = False

    async def answer(body: bytes) -> Message:
        made.append(body)
        return pb.RangeResponse()

    number = NUMBERS["KV/Range"]
    connection = Connection(PrivateEndpoint(Path("/none"), {}, Mock()), {number: answer}, Mock())
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
