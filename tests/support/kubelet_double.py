"""A kubelet's endpoint as API servers see it: its paths, its plain-text errors, a certificate it signed itself.

Exec and attach repeat their input in capitals and exit with the number that is the command's last word; a port-forward
repeats what it gets. With `websockets` it takes them, as kubelets do that declare ExtendWebSocketsToKubelet; without,
only SPDY.
"""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from protocols.streams.accepting import (
    accept_command,
    accept_forward,
    command_protocol,
    forward_protocol,
    is_websocket_request,
)
from protocols.streams.channels import CLOSE, ERROR, STDIN, STDOUT, exit_status
from protocols.streams.connections import Socket, is_spdy_request
from protocols.streams.spdy_channels import wanted
from protocols.streams.spdy_frames import pack_data
from protocols.streams.spdy_peers import BytesToSend, Data, Opened, SpdyServer, StreamEnded
from tests.support.connections import drop_accepted

LOG = "one\ntwo\n"


class KubeletDouble:
    def __init__(self, websockets: bool) -> None:
        self.websockets = websockets
        self.asked: list[str] = []
        """Method and path of each request."""
        self.headers: list[dict[str, str]] = []

    @asynccontextmanager
    async def serving(self, cert: Path, key: Path) -> AsyncIterator[int]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        runner = web.ServerRunner(web.Server(self._answer, handler_cancellation=True), shutdown_timeout=1.0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        port = runner.addresses[0][1]
        try:
            yield port
        finally:
            await runner.cleanup()
            await drop_accepted(port)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append(f"{request.method} {request.path}")
        self.headers.append(dict(request.headers))
        kind, *rest = request.path.strip("/").split("/")
        if kind == "containerLogs" and len(rest) == 3:
            return web.Response(text=LOG) if rest[2] == "a" else web.Response(status=404, text="no such container\n")
        if kind in ("exec", "attach") and len(rest) == 3:
            return await self._stream(request, forward=False)
        if kind == "portForward" and len(rest) == 2:
            return await self._stream(request, forward=True)
        if kind == "configz":
            return web.json_response({"kubeletconfig": {}, "query": request.rel_url.raw_query_string})
        if kind == "echo":
            return web.Response(body=await request.read(), status=201, headers={"Set-Cookie": "a=b"})
        if kind == "logs" and not request.path.endswith("/"):
            return web.Response(status=301, headers={"Location": "/logs/"})
        return web.Response(status=404, text="404 page not found\n")

    async def _stream(self, request: web.BaseRequest, forward: bool) -> web.StreamResponse:
        if not (is_spdy_request(request) or (self.websockets and is_websocket_request(request))):
            return web.Response(status=400, text="unable to upgrade: unsupported protocol\n")
        if request.query.getall("command", [""])[-1] == "missing":
            return web.Response(status=404, text='container not found ("a")\n')
        if forward:
            client = await accept_forward(request, forward_protocol(request), ())
        else:
            client = await accept_command(request, command_protocol(request), wanted(request.query))
        if client.socket is not None:
            await (_forward(client.socket) if forward else _command(client.socket, request))
            await client.socket.close()
        return client.response


async def _command(socket: Socket, request: web.BaseRequest) -> None:
    if "input" in request.query:
        async for message in socket:
            if message.data == bytes([CLOSE, STDIN]) or message.data[1:] == b"end\n":
                break
            if message.data[0] == STDIN:
                await socket.send_bytes(bytes([STDOUT]) + message.data[1:].upper())
    code = request.query.getall("command", ["0"])[-1]
    await socket.send_bytes(bytes([ERROR]) + exit_status(int(code) if code.isdigit() else 0))


async def _forward(socket: Socket) -> None:
    spdy, data = SpdyServer(), dict[int, str]()
    async for message in socket:
        for event in spdy.feed(message.data):
            match event:
                case BytesToSend(answer):
                    await socket.send_bytes(answer)
                case Opened(stream, headers) if headers["streamtype"] == "data":
                    data[stream] = headers["port"]
                case Data(stream, content) if stream in data:
                    await socket.send_bytes(pack_data(stream, data[stream].encode() + b":" + content))
                case StreamEnded(stream) if stream in data:
                    await socket.send_bytes(pack_data(stream, b"", fin=True))
