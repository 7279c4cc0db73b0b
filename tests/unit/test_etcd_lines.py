"""A connection whose end was read takes no new call, though nobody has been told yet."""

import asyncio
from typing import Any

import pytest

from protocols.etcd.door import DoorLine
from protocols.http2.line import Http2Line, Place


class Transport(asyncio.Transport):
    closing = False

    def write(self, data: Any) -> None: ...

    def is_closing(self) -> bool:
        return self.closing


class Nobody:
    def __getattr__(self, name: str) -> Any:
        return lambda *told: None


def door() -> asyncio.Protocol:
    return DoorLine(lambda number, kind, body: None, lambda: None)


def http2() -> asyncio.Protocol:
    return Http2Line(Place(), Nobody())


@pytest.mark.parametrize("make", [door, http2])
def test_no_call_begins_on_a_connection_that_ends(make: Any) -> None:
    async def story() -> None:
        line, transport = make(), Transport()
        line.connection_made(transport)
        assert not line.draining
        transport.closing = True
        assert line.draining

    asyncio.run(story())
