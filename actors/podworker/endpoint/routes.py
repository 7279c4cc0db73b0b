"""Handlers of the node endpoint: logs, exec, attach, port-forward; and the assembly of all its pages."""

import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import msgspec
from aiohttp import web
from google.protobuf.message import Message

from actors.podworker.clients.runtime import BusRuntime, call_runtime
from actors.podworker.endpoint.callers import CallerAccess
from actors.podworker.endpoint.errors import NotSynced, RequestInvalid, RuntimeUnavailable
from actors.podworker.endpoint.healthz import HealthzServer, NodeHealth, node_health
from actors.podworker.endpoint.metrics_pages import MetricsPages
from actors.podworker.endpoint.pages import ConfigPage, HealthPage, PodPages
from actors.podworker.endpoint.pod_times import PodTimes
from actors.podworker.endpoint.requests import (
    ExecOptions,
    PodTarget,
    exec_options,
    find_pod,
    is_running,
    log_options,
    ready_sandbox,
    run_for_log,
    running,
    shown_status,
    target_of,
    uid_of,
)
from actors.podworker.endpoint.server import LOOPBACK, EndpointOptions, Handler, NodeEndpoint
from actors.podworker.endpoint.stats import StatsRoute, UsageSampler
from actors.podworker.endpoint.streams import serve_command, serve_forward
from actors.podworker.logs.reader import LogOptions, read_log
from protocols.actor import Context
from protocols.bus import Bus, BusError
from protocols.kinds import views
from protocols.kubeclient.client import ApiClient
from protocols.messages.pleg import ContainerStatus, PodStatus
from protocols.wire import cri_pb2

CALL_S = 15.0
Reply = TypeVar("Reply", bound=Message)


class StreamCalls:
    """CRI calls that return the URL of a stream, valid once and for a short time. Raise RuntimeUnavailable."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def exec(self, container: str, options: ExecOptions) -> str:
        request = cri_pb2.ExecRequest(container_id=container, cmd=options.command, **_streams(options))
        return (await self._call("Exec", request, cri_pb2.ExecResponse)).url

    async def attach(self, container: str, options: ExecOptions) -> str:
        request = cri_pb2.AttachRequest(container_id=container, **_streams(options))
        return (await self._call("Attach", request, cri_pb2.AttachResponse)).url

    async def port_forward(self, sandbox: str) -> str:
        request = cri_pb2.PortForwardRequest(pod_sandbox_id=sandbox)
        return (await self._call("PortForward", request, cri_pb2.PortForwardResponse)).url

    async def _call(self, operation: str, request: Message, reply: type[Reply]) -> Reply:
        try:
            return await call_runtime(self._bus, operation, request, reply, CALL_S)
        except BusError as error:
            raise RuntimeUnavailable(error.message or str(error)) from None


def _streams(options: ExecOptions) -> dict[str, bool]:
    return {"tty": options.tty, "stdin": options.stdin, "stdout": options.stdout, "stderr": options.stderr}


class PodLookup(msgspec.Struct, frozen=True):
    """Pods of this node, from the API and from the runtime."""

    pods: Mapping[str, views.Pod]
    """Pod objects by `namespace/name`."""
    status: Callable[[str], PodStatus | None]
    """Runtime status by pod uid."""
    statuses: Callable[[], Iterable[PodStatus]] = tuple
    """Runtime statuses of all pods."""
    complete: Callable[[], bool] = lambda: True
    """False until both sources have been synced after a start."""
    listed: Callable[[], bool] = lambda: True
    """False while pleg has just started, so that pods without a runtime status may run."""

    def pod(self, target: PodTarget) -> views.Pod:
        """Return the pod object that `target` names. Raises StreamTargetMissing or NotSynced."""
        if not self.complete():
            raise NotSynced("the node has just started and does not know its pods yet")
        return find_pod(self.pods, target)

    def runtime_status(self, pod: views.Pod) -> PodStatus | None:
        """Return the runtime status of a pod, None if the runtime has none. Raises NotSynced.

        The uid of a mirror comes from an annotation, which users can write: it must be that of a pod of the same name.
        """
        status, metadata = self.status(uid_of(pod)), pod["metadata"]
        if status is None and not self.listed():
            raise NotSynced("the node has not listed the containers of its runtime yet")
        own = status is not None and (status.namespace, status.name) == (metadata["namespace"], metadata["name"])
        return status if own else None

    def may_run(self, pod: views.Pod, id: str) -> bool:
        """Return True if the container run with this id runs, as far as is known."""
        return not self.listed() or is_running(self.runtime_status(pod), id)


class LogRoute:
    """/containerLogs/NAMESPACE/POD/CONTAINER."""

    def __init__(self, view: PodLookup) -> None:
        self._view = view

    async def serve(self, request: web.BaseRequest, path: list[str]) -> web.StreamResponse:
        """Raises EndpointError before the first byte."""
        target, options = target_of(path, container=True), log_options(request.query)
        pod = self._view.pod(target)
        shown = shown_status(pod, target.container)
        run = run_for_log(target, self._view.runtime_status(pod), shown, options.previous)
        if not run.log_path:
            raise RequestInvalid(f'container "{target.container}" keeps no log')
        return await self._send(request, pod, run, options)

    async def _send(
        self, request: web.BaseRequest, pod: views.Pod, run: ContainerStatus, options: LogOptions
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        chunks = read_log(run.log_path, options, lambda: self._view.may_run(pod, run.id))
        async with contextlib.aclosing(chunks):
            async for chunk in chunks:
                await response.write(chunk)
        await response.write_eof()
        return response


class ConnectionRoutes:
    """Exec, attach and port-forward.

    Errors before the handshake are HTTP errors, later ones go to the error channel.
    """

    def __init__(self, view: PodLookup, calls: StreamCalls, bare_spdy: bool) -> None:
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
        target = target_of(path, container=False)
        known = self._view.runtime_status(self._view.pod(target))
        url = await self._calls.port_forward(ready_sandbox(target, known))
        return await serve_forward(request, url, self._bare)

    async def _command(self, request: web.BaseRequest, url: str, options: ExecOptions) -> web.StreamResponse:
        return await serve_command(request, url, options, self._bare)

    def _running(self, path: list[str]) -> ContainerStatus:
        target = target_of(path, container=True)
        return running(target, self._view.runtime_status(self._view.pod(target)))


def routes(view: PodLookup, calls: StreamCalls, bare_spdy: bool) -> dict[str, Handler]:
    """Return the handlers by first path segment. `bare_spdy`: the runtime speaks SPDY without a websocket around it."""
    connections = ConnectionRoutes(view, calls, bare_spdy)
    return {
        "containerLogs": LogRoute(view).serve,
        "exec": connections.exec,
        "attach": connections.attach,
        "portForward": connections.port_forward,
    }


class NodeServers:
    """The node endpoint and the healthz server."""

    def __init__(self, context: Context, view: PodLookup, client: ApiClient) -> None:
        self._context = context
        layout, settings = context.layout, context.settings
        health = node_health(view.complete, layout.registration_socket, layout.pod_resources_socket)
        context.registry.register(PodTimes(view.pods))
        handlers = {
            **routes(view, StreamCalls(context.bus), not settings.runtime_embedded),
            **self._pages(view, health),
        }
        self._endpoint = NodeEndpoint(_options(context), handlers, CallerAccess(client, settings.node_name).check)
        self._healthz = HealthzServer(health, settings.healthz_port)

    def _pages(self, view: PodLookup, health: NodeHealth) -> dict[str, Handler]:
        bus, settings = self._context.bus, self._context.settings
        sampler = UsageSampler(BusRuntime(bus).stats)
        pods = PodPages(view.pods, view.statuses, view.complete)
        metrics = MetricsPages(bus, self._context.registry, settings.node_name, sampler, view.status)
        return {
            "stats": StatsRoute(settings.node_name, sampler, view.status).serve,
            "pods": pods.pods,
            "runningpods": pods.running,
            "configz": ConfigPage(settings, lambda: self.port).serve,
            "healthz": HealthPage(health).serve,
            "metrics": metrics.serve,
        }

    async def start(self) -> None:
        await self._endpoint.start()
        self._context.spawn(self._healthz.run(), "healthz")

    @property
    def port(self) -> int:
        """Port of the node endpoint; 0 until it listens."""
        return self._endpoint.port

    async def close(self) -> None:
        await self._endpoint.close()
        await self._healthz.close()


def _options(context: Context) -> EndpointOptions:
    layout = context.layout
    cert, key = layout.client_cert("node-serving")
    port_file = layout.run / "node-endpoint.port"
    host, port = context.settings.node_ip or LOOPBACK, context.settings.node_port
    return EndpointOptions(cert=cert, key=key, client_ca=layout.ca_cert, port_file=port_file, host=host, port=port)
