"""A SPDY connection with a stream for each channel, as its user sees it: a websocket of the protocol that can tell the
end of a stream. What both ends of one have in common."""

from abc import abstractmethod
from collections import deque
from collections.abc import Iterator
from typing import ClassVar, Protocol

import aiohttp

from protocols.streams.channels import V5
from protocols.streams.spdy import frames
from protocols.streams.spdy.errors import SpdyBroken
from protocols.streams.spdy.server import Answer, Event
from protocols.streams.spdy.upgrade import ByteWire, Spdy

_PIECE = 32 * 1024


class Session(Protocol):
    """Either end of a connection, without its wire."""

    def feed(self, data: bytes) -> Iterator[Event]:
        """Raises SpdyBroken."""


class Messages(Spdy):
    """Use the `open` of the end in question first."""

    protocol = V5
    over: ClassVar[aiohttp.WSCloseCode]
    """What the end of the wire means."""

    def __init__(self, wire: ByteWire, session: Session) -> None:
        super().__init__(wire)
        self._session = session
        self._streams: dict[int, int] = {}
        """Stream of each channel."""
        self._channels: dict[int, int] = {}
        self._messages: deque[bytes] = deque()

    async def receive(self) -> aiohttp.WSMessage:
        while not self._messages and self.close_code is None:
            if not await self._read():
                self.close_code = self.over.value
                self._messages.extend(self._last())
        if self._messages:
            return aiohttp.WSMessage(aiohttp.WSMsgType.BINARY, self._messages.popleft(), None)
        return aiohttp.WSMessage(aiohttp.WSMsgType.CLOSED, None, None)

    async def _read(self) -> bool:
        """One portion from the wire; False at its end, or when it is no SPDY."""
        data = await self._wire.read()
        answers = []
        try:
            for event in self._session.feed(data):
                if isinstance(event, Answer):
                    answers.append(event.data)
                else:
                    self._messages.extend(self._told(event))
        except SpdyBroken:
            return False
        if answers and not await self._answered(b"".join(answers)):
            return False
        return bool(data)

    async def _answered(self, data: bytes) -> bool:
        """Whether to read on."""
        try:
            await self._wire.write(data)
        except ConnectionError:
            return False
        return True

    @abstractmethod
    def _told(self, event: Event) -> Iterator[bytes]:
        """The messages that an event makes."""

    def _last(self) -> Iterator[bytes]:
        """What is still to be told at the end of the wire."""
        return iter(())


def in_pieces(stream: int, content: bytes) -> bytes:
    pieces = (content[at : at + _PIECE] for at in range(0, len(content), _PIECE))
    return b"".join(frames.pack_data(stream, piece) for piece in pieces)
