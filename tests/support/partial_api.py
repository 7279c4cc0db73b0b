"""An API that serves less: passes every request on to a plane as one of its users, but refuses some resources.

A kube-apiserver without the resource behind a gate answers 404 to users with rights on it and 403 to all others.
"""

import contextlib
import ssl
from collections.abc import AsyncIterator

from aiohttp import ClientSession, web

from tests.support.apiserver_plane import Plane
from tests.support.connections import drop_accepted
from tests.support.kube_server import failure

HOP_HEADERS = ("Connection", "Content-Length", "Host", "Transfer-Encoding", "Content-Encoding", "Accept-Encoding")


class PartialApi:
    """`refused` maps plural names of resources to 403 or 404."""

    def __init__(self, plane: Plane, user: str, refused: dict[str, int]) -> None:
        self._plane, self._user, self._refused = plane, user, refused
        self.url = ""
        self._session: ClientSession
        self.seen: list[str] = []
        """Plural names of refused resources, once for each request."""

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["PartialApi"]:
        app = web.Application(client_max_size=1 << 22)
        app.router.add_route("*", "/{tail:.*}", self._handle)
        runner = web.AppRunner(app, handle_signals=False, shutdown_timeout=0.1)
        await runner.setup()
        pki = self._plane.settings.layout.pki
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(pki / "apiserver.crt", pki / "apiserver.key")
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        port = runner.addresses[0][1]
        self.url = f"https://127.0.0.1:{port}"
        # One session for all requests: a request that is cancelled at the end would not wait for its own to close.
        async with self._plane.client(self._user) as self._session:
            try:
                yield self
            finally:
                await runner.cleanup()
                await drop_accepted(port)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        for plural, code in self._refused.items():
            if plural in request.path.split("/"):
                self.seen.append(plural)
                return failure(code, {403: "Forbidden", 404: "NotFound"}[code])
        return await self._pass_on(request)

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        headers = {name: value for name, value in request.headers.items() if name not in HOP_HEADERS}
        sent = self._session.request(request.method, request.path_qs, data=body or None, headers=headers)
        async with sent as answer:
            kept = {name: value for name, value in answer.headers.items() if name not in HOP_HEADERS}
            reply = web.StreamResponse(status=answer.status, headers=kept)
            await reply.prepare(request)
            with contextlib.suppress(ConnectionResetError):
                async for chunk in answer.content.iter_any():
                    await reply.write(chunk)
            return reply
