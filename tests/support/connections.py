"""The sockets of a test's HTTP sessions, seen to be closed before its event loop is."""

import asyncio
import socket
import time
from contextlib import suppress
from typing import Any

import aiohttp

GOODBYE_S = 1.0


class Connections:
    """`TCPConnector(socket_factory=connections.make)`, and `await connections.closed()` after the session's end.

    TLS says goodbye in the background and waits for the peer's; a loop that ends meanwhile leaves the socket open.
    """

    def __init__(self) -> None:
        self._made: list[socket.socket] = []

    def make(self, address: Any) -> socket.socket:
        family, kind, protocol, *_ = address
        self._made.append(socket.socket(family, kind, protocol))
        return self._made[-1]

    async def closed(self) -> None:
        began = time.monotonic()
        while open_ := [each for each in self._made if each.fileno() >= 0]:
            assert time.monotonic() - began < 30, "a connection does not close"
            await asyncio.sleep(0.002)
            if time.monotonic() - began > GOODBYE_S:
                for each in open_:
                    with suppress(OSError):
                        each.shutdown(socket.SHUT_RDWR)


async def drop_accepted(port: int) -> None:
    """End the connections of a port that nobody listens at any more, also those whose TLS handshake has not ended.

    TLS waits for the peer's goodbye, for longer than the loop of a test lives.
    """
    await asyncio.sleep(0)  # one that was accepted in this turn is known to the loop in the next
    known = asyncio.get_running_loop()._transports.values()  # type: ignore[attr-defined]  # of a selector loop
    for transport in [each for each in known if (each.get_extra_info("sockname") or ("", 0))[1] == port]:
        transport.abort()
    await asyncio.sleep(0)


class Responses:
    """`ClientSession(response_class=responses.kind)`, and `responses.close()` before the session's end.

    A test may drop a response whose body it did not read. Python frees it whenever it likes, maybe within another
    test, and aiohttp then warns of an unclosed connection there.
    """

    def __init__(self) -> None:
        open_ = self._open = list[aiohttp.ClientResponse]()

        class Remembered(aiohttp.ClientResponse):
            def __init__(self, *arguments: Any, **options: Any) -> None:
                super().__init__(*arguments, **options)
                open_[:] = [*(each for each in open_ if not each.closed), self]

        self.kind = Remembered

    def close(self) -> None:
        while self._open:
            self._open.pop().close()
