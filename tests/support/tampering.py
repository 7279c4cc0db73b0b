"""A proxy before a plane's API server that spoils what podworker writes, so that the API itself says no."""

import json
import re
import ssl
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, ClientTimeout, TCPConnector, web

from protocols.process.layout import Layout
from tests.support.connections import Connections, drop_accepted

STATUS = re.compile(r"/api/v1/namespaces/[^/]+/pods/([^/]+)/status")
PASSED_ON = ("Content-Type", "Accept", "User-Agent")
Spoil = Callable[[dict[str, Any]], None]


class Tampering:
    """Everything passes, under podworker's name, but for statuses of the pods in the attributes below."""

    def __init__(self, layout: Layout, api: str) -> None:
        self._layout = layout
        self._api = api
        self.nobodys: set[str] = set()
        """Sent on as somebody who may do nothing: 403."""
        self.spoilt: dict[str, Spoil] = {}
        """What is done to the patch: 409, 422."""
        self.asked_to_wait: set[str] = set()
        """429, this proxy's own word."""
        self.passed = 0
        self.answers: dict[str, list[int]] = defaultdict(list)
        """By pod: codes of the answers to patches of its status."""
        self.url = ""

    async def start(self) -> None:
        server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        server.load_cert_chain(*_pair(self._layout.pki, "apiserver"))
        self._connections = Connections()
        self._named = ClientSession(connector=self._connector("podworker"), timeout=ClientTimeout())
        nobody = {"Impersonate-User": "nobody"}
        self._nobody = ClientSession(connector=self._connector("admin"), headers=nobody)
        application = web.Application(client_max_size=2**24)
        application.router.add_route("*", "/{path:.*}", self._pass)
        self._runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=server)
        await site.start()
        self._port = self._runner.addresses[0][1]
        self.url = f"https://127.0.0.1:{self._port}"

    async def stop(self) -> None:
        await self._runner.cleanup()
        await drop_accepted(self._port)
        await self._named.close()
        await self._nobody.close()
        await self._connections.closed()

    def refused(self, pod: str, code: int) -> int:
        """How often."""
        return self.answers[pod].count(code)

    def honest(self) -> None:
        self.nobodys, self.spoilt, self.asked_to_wait = set(), {}, set()

    def _connector(self, user: str) -> TCPConnector:
        return TCPConnector(ssl=self._client(user), socket_factory=self._connections.make)

    def _client(self, user: str) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self._layout.ca_cert))
        context.load_cert_chain(*_pair(self._layout.pki, user))
        return context

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        found = STATUS.fullmatch(request.path)
        pod = found[1] if found and request.method == "PATCH" else ""
        if pod in self.asked_to_wait:
            self.answers[pod].append(429)
            return web.json_response({"kind": "Status", "code": 429}, status=429, headers={"Retry-After": "1"})
        self.passed += 1
        body = await request.read()
        if pod in self.spoilt:
            patch = json.loads(body)
            self.spoilt[pod](patch)
            body = json.dumps(patch).encode()
        return await self._send(request, body, pod)

    async def _send(self, request: web.Request, body: bytes, pod: str) -> web.StreamResponse:
        session = self._nobody if pod in self.nobodys else self._named
        headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
        url = self._api + request.raw_path
        async with session.request(request.method, url, data=body or None, headers=headers) as answer:
            if pod:
                self.answers[pod].append(answer.status)
            kept = {name: answer.headers[name] for name in ("Content-Type", "Retry-After") if name in answer.headers}
            reply = web.StreamResponse(status=answer.status, headers=kept)
            await reply.prepare(request)
            async for piece in answer.content.iter_any():
                await reply.write(piece)
            await reply.write_eof()
            return reply


def _pair(pki: Path, name: str) -> tuple[Path, Path]:
    return pki / f"{name}.crt", pki / f"{name}.key"
