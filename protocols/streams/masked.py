"""Websockets of clients that mask their frames, as RFC 6455 (5.1) demands: aiohttp takes others, too."""

from typing import Any

from aiohttp import WebSocketError, WSCloseCode, web

from protocols.streams.turns import SharedTurns

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


class MaskedSocket(SharedTurns, web.WebSocketResponse):
    """Closes the connection with 1002 at the first frame that is not masked."""

    _handler: Any = None

    def _connection(self) -> Any:
        return self._handler

    def _post_start(self, request: web.BaseRequest, *rest: Any) -> None:
        handler: Any = request.protocol
        self._handler = handler
        early, handler._message_tail = handler._message_tail, b""  # sent before the answer to the handshake
        super()._post_start(request, *rest)
        handler._payload_parser = checked = _Checked(handler._payload_parser, self._reader)
        if early:
            checked.feed_data(early)
