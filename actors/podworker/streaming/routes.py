"""What the node's paths do: from a request to a stream."""

import contextlib
from collections.abc import Callable, Mapping

import msgspec
from aiohttp import web

from actors.podworker.streaming import selecting
from actors.podworker.streaming.calls import StreamCalls
from actors.podworker.streaming.connecting import check_upgrade, connect
from actors.podworker.streaming.errors import NotHeardYet, RequestInvalid, StreamTargetMissing
from actors.podworker.streaming.log_file import read_log
from actors.podworker.streaming.query import ExecOptions, exec_options, log_options
from actors.podworker.streaming.server import Handler
from actors.podworker.streaming.tunnel import command, tunnel
from actors.podworker.streaming.types import LogOptions, Where
from actors.podworker.types import Object
from protocols.messages.pleg import ContainerStatus, PodStatus
from protocols.streams.channels import TUNNEL


class NodeView(msgspec.Struct, frozen=True):
    """What is known of this node's pods."""

    pods: Mapping[str, Object]
    """Pod objects by `namespace/name`."""
    status: Callable[[str], PodStatus | None]
    """By uid, as the runtime has it."""
    complete: Callable[[], bool] = lambda: True
    """False until both have been heard of after a start."""

    def pod(self, where: Where) -> Object:
        """Raises StreamTargetMissing, NotHeardYet."""
        if not self.complete():
            raise NotHeardYet("the node has just started and does not know its pods yet")
        return selecting.find_pod(self.pods, where)


class LogRoute:
    def __init__(self, view: NodeView) -> None:
        self._view = view

    async def serve(self, request: web.BaseRequest, path: list[str]) -> web.StreamResponse:
        """Raises StreamingRefused before the first byte."""
        where, options = where_of(path, container=True), log_options(request.query)
        pod = self._view.pod(where)
        uid = uid_of(pod)
        shown = selecting.shown_status(pod, where.container)
        run = selecting.for_log(where, self._view.status(uid), shown, options.previous)
        if not run.log_path:
            raise RequestInvalid(f'container "{where.container}" keeps no log')
        return await self._send(request, uid, run, options)

    async def _send(
        self, request: web.BaseRequest, uid: str, run: ContainerStatus, options: LogOptions
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        chunks = read_log(run.log_path, options, lambda: selecting.is_running(self._view.status(uid), run.id))
        async with contextlib.aclosing(chunks):
            async for chunk in chunks:
                await response.write(chunk)
        await response.write_eof()
        return response


class ConnectionRoutes:
    """Every refusal comes before the handshake, what fails later is told on the error channel."""

    def __init__(self, view: NodeView, calls: StreamCalls, bare_spdy: bool) -> None:
        self._view = view
        self._calls = calls
        self._bare = bare_spdy

    async def exec(self, request: web.BaseRequest, path: list[str]) -> web.StreamResponse:
        options = exec_options(request.query, request.query.getall("command", []))
        if not options.command:
            raise RequestInvalid("you must specify a command for the container")
        return await self._command(request, await self._calls.exec(self._running(path).id, options), options)

    async def attach(self, request: web.BaseRequest, path: list[str]) -> web.StreamResponse:
        options = exec_options(request.query, [])
        return await self._command(request, await self._calls.attach(self._running(path).id, options), options)

    async def port_forward(self, request: web.BaseRequest, path: list[str]) -> web.StreamResponse:
        where = where_of(path, container=False)
        known = self._view.status(uid_of(self._view.pod(where)))
        url = await self._calls.port_forward(selecting.ready_sandbox(where, known))
        if self._bare:
            check_upgrade(request, (TUNNEL,))
            return await tunnel(request, url)
        return await connect(request, url, (TUNNEL,))

    async def _command(self, request: web.BaseRequest, url: str, options: ExecOptions) -> web.StreamResponse:
        return await (command(request, url, options) if self._bare else connect(request, url))

    def _running(self, path: list[str]) -> ContainerStatus:
        where = where_of(path, container=True)
        pod = self._view.pod(where)
        return selecting.running(where, self._view.status(uid_of(pod)))


def routes(view: NodeView, calls: StreamCalls, bare_spdy: bool) -> dict[str, Handler]:
    """`bare_spdy`: the runtime speaks SPDY without a websocket around it."""
    connections = ConnectionRoutes(view, calls, bare_spdy)
    return {
        "containerLogs": LogRoute(view).serve,
        "exec": connections.exec,
        "attach": connections.attach,
        "portForward": connections.port_forward,
    }


def where_of(path: list[str], container: bool) -> Where:
    """`NAMESPACE/POD[/UID][/CONTAINER]`, as kubelet's paths are. Raises StreamTargetMissing."""
    wanted = 3 if container else 2
    if len(path) not in (wanted, wanted + 1) or not all(path):
        raise StreamTargetMissing("the node's paths are NAMESPACE/POD[/UID]" + "/CONTAINER" * container)
    uid = path[2] if len(path) > wanted else ""
    return Where(namespace=path[0], pod=path[1], container=path[-1] if container else "", uid=uid)


def uid_of(pod: Object) -> str:
    """Of static pods the runtime knows the uid of the file, which the mirror pod carries as an annotation."""
    metadata = pod.get("metadata") or {}
    mirrored = (metadata.get("annotations") or {}).get("kubernetes.io/config.hash")
    return str(mirrored or metadata.get("uid") or "")
