"""Take a request's connection from the HTTP server, and give it back. All knowledge of aiohttp's insides is here."""

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
    # The server takes this for a lost connection, reported after its handler has returned, and frees its state.
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
