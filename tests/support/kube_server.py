"""A small API server for tests: lists and watches one resource kind at a time, and misbehaves on order."""

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from tests.support.connections import drop_accepted

Json = dict[str, Any]


class KubeServer:
    """Objects by path of their collection; every change is an event with the next revision."""

    def __init__(self, pki: Path, user: str = "scheduler") -> None:
        self.pki = pki
        self.user = user
        self.revision = 1
        self.objects: dict[str, Json] = {}
        self.events: list[tuple[int, Json]] = []
        self.compacted = 0
        self.streams = True
        """Watches may begin with all objects."""
        self.ends = True
        """The bookmark after initial events is sent."""
        self.cut = -1
        """Initial events after which the connection breaks, once; -1 = it does not."""
        self.versions: list[str] = []
        """resourceVersions of the lists."""
        self.lists = 0
        """With those at the beginning of watches."""
        self.watches = 0
        self.requests: list[tuple[str, str, Json]] = []
        self.answer: Callable[[web.Request, Json], web.Response | None] = lambda _request, _body: None
        self.mute = False
        self.port = 0
        self._changed = asyncio.Condition()
        self._runner: web.AppRunner | None = None
        self._transports: set[asyncio.Transport] = set()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    async def start(self) -> None:
        app = web.Application(client_max_size=1 << 22)
        app.router.add_route("*", "/{tail:.*}", self._handle)
        self._runner = web.AppRunner(app, handle_signals=False, shutdown_timeout=0.1)
        await self._runner.setup()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(self.pki / "ca.crt"))
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(str(self.pki / "apiserver.crt"), str(self.pki / "apiserver.key"))
        await web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=context, reuse_address=True).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """As if killed: every connection is reset."""
        self.drop_connections()
        if self._runner:
            await self._runner.cleanup()
            self._runner = None
            await drop_accepted(self.port)

    def drop_connections(self) -> None:
        for transport in list(self._transports):
            with contextlib.suppress(AttributeError):  # a TLS transport that is closed, before Python 3.11.5
                transport.abort()
        self._transports.clear()

    async def put(self, name: str, **fields: Any) -> None:
        self.revision += 1
        kind = "MODIFIED" if name in self.objects else "ADDED"
        meta = {"name": name, "namespace": "ns", "uid": f"u-{name}", "resourceVersion": str(self.revision)}
        self.objects[name] = {"kind": "Pod", "apiVersion": "v1", "metadata": meta, **fields}
        await self._tell(kind, self.objects[name])

    async def remove(self, name: str) -> None:
        self.revision += 1
        gone = self.objects.pop(name)
        gone = {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self.revision)}}
        await self._tell("DELETED", gone)

    async def bookmark(self) -> None:
        meta = {"resourceVersion": str(self.revision)}
        await self._tell("BOOKMARK", {"kind": "Pod", "apiVersion": "v1", "metadata": meta})

    async def raw(self, line: bytes) -> None:
        await self._tell("RAW", {"line": line})

    async def _tell(self, kind: str, obj: Json) -> None:
        self.events.append((self.revision, {"type": kind, "object": obj}))
        async with self._changed:
            self._changed.notify_all()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        self._transports.add(request.transport)
        body = msgspec.json.decode(await request.read() or b"{}")
        self.requests.append((request.method, request.path, body))
        chosen = self.answer(request, body)
        if chosen is not None:
            return chosen
        if request.query.get("watch"):
            return await self._watch(request)
        if request.method == "GET":
            self._count_list(request)
            meta = {"resourceVersion": str(self.revision)}
            return web.json_response({"kind": "PodList", "metadata": meta, "items": list(self.objects.values())})
        return web.json_response(body)

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        if "sendInitialEvents" in request.query and not self.streams:
            return failure(422, "Invalid")
        self.watches += 1
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        await answer.prepare(request)
        if "sendInitialEvents" in request.query:
            self._count_list(request)
            since = await self._initial(answer)
        else:
            since = int(request.query["resourceVersion"])
        if since < self.compacted:
            status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
            await answer.write(msgspec.json.encode({"type": "ERROR", "object": status}) + b"\n")
            return answer
        end = asyncio.get_running_loop().time() + float(request.query["timeoutSeconds"])
        at = next((index for index, (revision, _) in enumerate(self.events) if revision > since), len(self.events))
        while True:
            for _, event in self.events[at:]:
                if not self.mute:
                    await answer.write(_line(event))
            at = len(self.events)
            left = end - asyncio.get_running_loop().time()
            try:
                async with self._changed:
                    await asyncio.wait_for(self._changed.wait_for(lambda: len(self.events) > at), max(0.0, left))  # noqa: B023 # read at once
            except TimeoutError:
                return answer

    def _count_list(self, request: web.Request) -> None:
        self.lists += 1
        self.versions.append(request.query.get("resourceVersion", ""))

    async def _initial(self, answer: web.StreamResponse) -> int:
        """Send the state and its end; return its revision."""
        since = self.revision
        for number, obj in enumerate(list(self.objects.values())):
            if number == self.cut:
                self.cut = -1
                self.drop_connections()
                raise ConnectionResetError
            await answer.write(_line({"type": "ADDED", "object": obj}))
        meta = {"resourceVersion": str(since), "annotations": {"k8s.io/initial-events-end": "true"}}
        if self.ends:
            await answer.write(_line({"type": "BOOKMARK", "object": {"metadata": meta}}))
        return since


def _line(event: Json) -> bytes:
    return (event["object"]["line"] if event["type"] == "RAW" else msgspec.json.encode(event)) + b"\n"


def failure(code: int, reason: str, headers: dict[str, str] | None = None) -> web.Response:
    status = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": reason}
    return web.json_response(status, status=code, headers=headers)
