"""A visitor of the store's second door who leaves: what he asked and did not wait for is not worked out."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
from google.protobuf.message import Message

from actors.store.server.private_endpoint import Door, Visitor
from protocols.etcd.frames import GREETING, NUMBERS, pack
from protocols.wire import etcd_pb2 as pb

ASKED = 2000


@pytest.mark.parametrize("leave", [lambda visitor: visitor.connection_lost(None), Visitor.resume_writing])
def test_answers_nobody_is_there_for_are_not_made(leave: Callable[[Visitor], None]) -> None:
    """Told that the connection is lost, or as soon as a write has failed: before that is told."""

    async def story() -> None:
        made: list[bytes] = []
        closing = False

        async def answer(body: bytes) -> Message:
            made.append(body)
            return pb.RangeResponse()

        number = NUMBERS["KV/Range"]
        visitor = Visitor(Door(Path("/none"), {}, Mock()), {number: answer}, Mock())
        transport = Mock(is_closing=lambda: closing)
        visitor.connection_made(transport)
        visitor.pause_writing()
        visitor.data_received(GREETING + b"".join(pack(call, number, b"") for call in range(ASKED)))
        await asyncio.sleep(0)
        closing = True
        leave(visitor)
        for _ in range(5):
            await asyncio.sleep(0)
        assert made == []
        assert not visitor._tasks

    asyncio.run(story())
