"""Websockets of clients that mask their frames, as RFC 6455 (5.1) demands: aiohttp takes others, too."""

import asyncio
import contextlib
from typing import Any

from aiohttp import WebSocketError, WSCloseCode, WSMsgType, web

LENGTHS = {126: 2, 127: 8}
"""Bytes of an extended length by the length in a frame's second byte."""
MASKED, LENGTH, KEY = 0x80, 0x7F, 4
SHORT = 2 + KEY
"""Bytes of a head without an extended length."""


class FrameHeads:
    """Finds the heads of frames in a stream of bytes, however it is cut."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._left = 0
        """Bytes of the current frame's content that are still to come."""

    def is_masked(self, data: bytes) -> bool:
        """Return False as soon as a frame is not masked."""
        at = 0
        while at < len(data):
            if self._left:
                skipped = min(self._left, len(data) - at)
                self._left -= skipped
                at += skipped
                continue
            if not self._head and len(data) - at >= SHORT and data[at + 1] & LENGTH not in LENGTHS:  # a flood of them
                if not data[at + 1] & MASKED:
                    return False
                self._left = data[at + 1] & LENGTH
                at += SHORT
                continue
            self._head.append(data[at])
            at += 1
            if len(self._head) > 1 and not self._take():
                return False
        return True

    def _take(self) -> bool:
        """Take the content's length once the head is complete; return False for one without a mask."""
        if not self._head[1] & MASKED:
            return False
        length = self._head[1] & LENGTH
        extended = LENGTHS.get(length, 0)
        if len(self._head) == 2 + extended + KEY:
            self._left = int.from_bytes(self._head[2 : 2 + extended], "big") if extended else length
            self._head.clear()
        return True


class _Checked:
    """A parser of frames behind a check of their masks."""

    def __init__(self, parser: Any, queue: Any) -> None:
        self._parser, self._queue, self._heads = parser, queue, FrameHeads()

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        if not self._heads.is_masked(data):
            self._queue.set_exception(WebSocketError(WSCloseCode.PROTOCOL_ERROR, "a frame is not masked"))
            return True, b""
        parsed: tuple[bool, bytes] = self._parser.feed_data(data)
        return parsed

    def feed_eof(self) -> None:
        self._parser.feed_eof()


TURN = 128
"""Messages of a connection in a turn of the event loop, some milliseconds: aiohttp reads 256 KiB at once, which may be
37,000 messages, and returns them, and answers pings, without a pause."""


class MaskedSocket(web.WebSocketResponse):
    """Closes the connection with 1002 at the first frame that is not masked; shares the event loop with others."""

    def __init__(self, **options: Any) -> None:
        super().__init__(autoping=False, **options)
        self._received = 0

    async def receive(self, timeout: float | None = None) -> Any:
        """Return the next message; pings are answered. Raises ConnectionError."""
        while True:
            self._received += 1
            if self._received % TURN == 0:
                await self._let_others_run()
            message = await super().receive(timeout)
            if message.type is WSMsgType.PING:
                await self.pong(message.data)
            elif message.type is not WSMsgType.PONG:
                return message

    async def _let_others_run(self) -> None:
        """Pass one turn without reading: else each turn would bring more messages than are taken."""
        request: Any = self._req
        transport = request.transport
        if transport is None:
            return
        transport.pause_reading()
        try:
            await asyncio.sleep(0)
        finally:
            if not request.protocol._reading_paused:  # by aiohttp, while much waits to be taken
                with contextlib.suppress(RuntimeError):  # it is being closed
                    transport.resume_reading()

    def _post_start(self, request: web.BaseRequest, *rest: Any) -> None:
        handler: Any = request.protocol
        early, handler._message_tail = handler._message_tail, b""  # sent before the answer to the handshake
        super()._post_start(request, *rest)
        handler._payload_parser = checked = _Checked(handler._payload_parser, self._reader)
        if early:
            checked.feed_data(early)
