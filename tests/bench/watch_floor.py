"""The floor: a bare uvloop server that knows no HTTP. It writes the bytes it was started with, and that is all.

With a third argument `plain` it does so without TLS.

To every connection that has sent something it writes a head. A request for `/body` is answered by the body, others
wait. Each line on stdin sends the body to all that wait.
"""

import asyncio
import socket
import ssl
import sys
from pathlib import Path
from typing import cast

import uvloop

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Bare(asyncio.Protocol):
    def __init__(self, waiting: "set[asyncio.WriteTransport]", body: bytes) -> None:
        self._waiting, self._body = waiting, body

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        if data.startswith(b"GET /body "):
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(self._body), self._body))
        else:
            self._transport.write(HEAD)
            self._waiting.add(self._transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._waiting.discard(self._transport)


async def serve(pki: Path, body: bytes, plain: bool) -> None:
    context = None if plain else ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if context is not None:
        context.load_cert_chain(pki / "apiserver.crt", pki / "apiserver.key")
    waiting: set[asyncio.WriteTransport] = set()
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    loop = asyncio.get_running_loop()
    await loop.create_server(lambda: Bare(waiting, body), sock=listener, ssl=context)
    print(listener.getsockname()[1], flush=True)
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.readline():
        for transport in waiting:
            transport.write(body)


if __name__ == "__main__":
    uvloop.run(serve(Path(sys.argv[1]), Path(sys.argv[2]).read_bytes(), "plain" in sys.argv[3:]))
