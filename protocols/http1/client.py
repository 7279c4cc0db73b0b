"""Connections to one HTTP/1.1 server: a bounded pool for requests, and one more for each stream."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from protocols.http1.connection import Address, Http1Connection, NotSent, dial
from protocols.http1.response import Response
from protocols.process.deadlines import Deadlines

KEEP_S = 60.0
"""Seconds that an unused connection stays open: less than servers wait for the next request."""
STREAM_DIALS = 4
"""Connections for streams that are opened at once: a client of 60 watches leaves room for the requests of others."""
CHECK_S = 1.0
"""Seconds between two checks of the files behind the TLS context, which cost as much as a fifth of a request."""


class HttpClient:
    """Use it in one event loop, between its creation and `close`."""

    def __init__(self, address: Address, connections: int) -> None:
        """`connections` are those for requests; the caller bounds the number of streams."""
        self._address = address
        self._slots, self._stream_dials = asyncio.Semaphore(connections), asyncio.Semaphore(STREAM_DIALS)
        self._idle: list[Http1Connection] = []
        """Longest idle first."""
        self._used: dict[Http1Connection, None] = {}
        """By requests and streams."""
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._deadlines = Deadlines()
        self._context: ssl.SSLContext | None = None
        self._check_at = 0.0
        self.closed = False

    def close(self) -> None:
        """End all connections, and requests and streams with them."""
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._deadlines.close()
        for connection in (*self._idle, *self._used):
            connection.abort()

    async def request(self, request: bytes, limit: int, seconds: float) -> Response:
        """Send a request once and return the response with a body of at most `limit` bytes.

        Raises NotSent, ConnectionBroken, ResponseInvalid, and TimeoutError after so many seconds.
        """
        with self._deadlines.within(seconds):
            async with self._slots:
                connection = self._reused() or await self._dialed()
                self._used[connection] = None
                try:
                    return await connection.exchange(request, limit)
                finally:
                    self._release(connection)

    @asynccontextmanager
    async def stream(self, request: bytes, seconds: float) -> AsyncIterator[Http1Connection]:
        """Send a request over a connection of its own. The headers of the response come within so many seconds.

        Raises as `request`.
        """
        connection = None
        try:
            with self._deadlines.within(seconds):
                async with self._stream_dials:
                    connection = await self._dialed()
                self._used[connection] = None
                await connection.begin(request)
            yield connection
        finally:
            if connection is not None:
                self._used.pop(connection, None)
                connection.abort()

    def _reused(self) -> Http1Connection | None:
        """Return an idle connection; those that are closed, or have another context than new ones, are left out."""
        if self._loop.time() >= self._check_at:
            self._renew()
        while self._idle:
            connection = self._idle.pop()
            if connection.reusable and connection.context is self._context:
                return connection
            connection.abort()
        return None

    def _renew(self) -> None:
        self._check_at = self._loop.time() + CHECK_S
        self._context = None if self._address.tls is None else self._address.tls()

    async def _dialed(self) -> Http1Connection:
        self._renew()
        connection = await dial(self._address, self._context, self._deadlines)
        if self.closed:
            connection.abort()
            raise NotSent("this client is closed")
        return connection

    def _release(self, connection: Http1Connection) -> None:
        del self._used[connection]
        if not connection.reusable or self.closed:
            connection.abort()
            return
        connection.idle_since = self._loop.time()
        self._idle.append(connection)
        if self._timer is None:
            self._timer = self._loop.call_later(KEEP_S, self._end_idle)

    def _end_idle(self) -> None:
        self._timer, oldest = None, self._loop.time() - KEEP_S
        while self._idle and self._idle[0].idle_since <= oldest:
            self._idle.pop(0).abort()
        if self._idle:
            self._timer = self._loop.call_at(self._idle[0].idle_since + KEEP_S, self._end_idle)
