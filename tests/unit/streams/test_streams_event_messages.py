"""Watches over websockets: events as messages, and clients that read slowly."""

import asyncio
from typing import Any

import pytest

from protocols.streams.event_messages import MessageTransport, events_of


@pytest.mark.parametrize(
    ("data", "binary", "events"),
    [
        (b'{"a":1}\n{"b":2}\n', False, [b'{"a":1}\n', b'{"b":2}\n']),
        (b"\0\0\0\2ab\0\0\0\1c", True, [b"ab", b"c"]),
        (b"", False, []),
        (b"", True, []),
    ],
)
def test_events_are_split(data: bytes, binary: bool, events: list[bytes]) -> None:
    assert list(events_of(data, binary)) == events


class Client:
    """A websocket whose client reads when it is told to; it is also the protocol of the transport."""

    def __init__(self) -> None:
        self.reads = asyncio.Event()
        self.got: list[str] = []
        self.calls: list[str] = []

    async def send_str(self, text: str) -> None:
        await self.reads.wait()
        self.got.append(text)

    def pause_writing(self) -> None:
        self.calls.append("pause")

    def resume_writing(self) -> None:
        self.calls.append("resume")


async def test_watch_pauses_until_a_slow_client_has_read() -> None:
    client: Any = Client()
    transport = MessageTransport(client, client, binary=False)
    transport.set_protocol(client)
    transport.set_write_buffer_limits(high=2)
    for text in (b"a\n", b"b\n", b"c\n"):
        transport.write(text)
    assert client.calls == ["pause"]
    client.reads.set()
    transport.close()
    async with asyncio.timeout(15):
        await transport.send()
    assert (client.got, client.calls) == (["a\n", "b\n", "c\n"], ["pause", "resume"])
