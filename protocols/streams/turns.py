"""Websockets that share the event loop, whatever their peers send.

aiohttp reads 256 KiB at once, which may be 37,000 messages, returns them and answers pings without a pause. Knowledge
of its internals is only here: `_autoping`, the connection's protocol and its `_reading_paused`.
"""

import asyncio
import contextlib
from typing import Any

from aiohttp import ClientWebSocketResponse, WSMsgType

TURN = 128
"""Messages of a connection in a turn of the event loop, some milliseconds."""


class SharedTurns:
    """Comes before the class of a websocket."""

    def __init__(self, *parts: Any, **options: Any) -> None:
        super().__init__(*parts, **options)
        self._autoping, self._received = False, 0

    def _connection(self) -> Any:
        """Return the protocol of the connection; None before the handshake."""
        raise NotImplementedError

    async def receive(self, timeout: float | None = None) -> Any:
        """Return the next message; pings are answered. Raises ConnectionError."""
        socket: Any = super()
        while True:
            self._received += 1
            if self._received % TURN == 0:
                await self._let_others_run()
            message = await socket.receive(timeout)
            if message.type is WSMsgType.PING:
                await socket.pong(message.data)
            elif message.type is not WSMsgType.PONG:
                return message

    async def _let_others_run(self) -> None:
        """Pass one turn without reading: else each turn would bring more messages than are taken."""
        protocol = self._connection()
        transport = None if protocol is None else protocol.transport
        if transport is None:
            return
        transport.pause_reading()
        try:
            await asyncio.sleep(0)
        finally:
            if not protocol._reading_paused:  # by aiohttp, while much waits to be taken
                with contextlib.suppress(RuntimeError):  # it is being closed
                    transport.resume_reading()


class DialedSocket(SharedTurns, ClientWebSocketResponse):
    """The dialing end: `ws_response_class` of a session."""

    def _connection(self) -> Any:
        return None if self._conn is None else self._conn.protocol
