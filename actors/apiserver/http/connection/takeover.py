"""How a request's connection leaves the HTTP server, and how it comes back: all that is known of aiohttp's insides."""

import asyncio
from collections.abc import Callable

from aiohttp import web

from actors.apiserver.api.errors import ServiceUnavailable


class Detached(web.StreamResponse):
    """The answer is somebody else's: the server finds nothing left to write, and no connection to close."""

    def __init__(self) -> None:
        super().__init__()
        self.force_close()

    async def prepare(self, request: web.BaseRequest) -> None:
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        return None


def take_over(http: web.BaseRequest) -> asyncio.Transport:
    """The transport of the request's connection; its user calls `set_protocol` at once and answers `Detached`.
    Raises ServiceUnavailable when the client is gone already."""
    protocol = http.protocol
    transport = protocol.transport
    if transport is None or transport.is_closing():
        raise ServiceUnavailable("the client is gone")
    protocol.transport = None
    # To the server this is a lost connection, told once its handler has returned: it frees all it kept for it.
    asyncio.get_running_loop().call_soon(protocol.connection_lost, None)
    return transport


def give_back(server: web.Server) -> Callable[[asyncio.Transport], None]:
    """Makes an open connection one of `server` again, waiting for its next request."""

    def reuse(transport: asyncio.Transport) -> None:
        protocol = server()
        transport.set_protocol(protocol)
        transport.set_write_buffer_limits()
        protocol.connection_made(transport)

    return reuse
