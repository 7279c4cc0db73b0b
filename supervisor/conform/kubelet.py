"""The played kubelet: a Registration server that stops, starts anew and rejects as a script orders."""

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from protocols.process.sockets import is_socket, prepare_directory, prepare_socket
from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from protocols.wire.plugin_names import endpoint_fault, resource_fault, version_fault
from protocols.wire.plugins import REGISTER
from supervisor.conform.exchange import Exchange, Recorder, Sent
from supervisor.conform.linked_server import LinkedServer
from supervisor.conform.peer import PluginPeer
from supervisor.conform.played import MAX_ATTEMPTS, PlayedKubelet
from supervisor.conform.verdict import CallFailed

DIAL_S = 10.0
"""kubelet's deadline for the answer of a plugin that registers."""


@dataclass
class Attempt:
    """One Register call."""

    request: pb.RegisterRequest
    at: float = field(default_factory=time.monotonic)
    fault: str = ""
    """Why it was rejected."""
    endpoint_fault: str = ""
    socket_fault: str = ""
    """Fault of the endpoint's socket; empty if none."""
    options_fault: str = ""
    """Why GetDevicePluginOptions failed."""
    options_status: str = ""
    """Code of that failure."""
    options_failed: Exchange | None = None
    peer: PluginPeer | None = None
    exchange: Exchange | None = None

    @property
    def name(self) -> str:
        return self.resource

    @property
    def exchanges(self) -> tuple[Exchange | None, ...]:
        return self.exchange, self.options_exchange

    @property
    def options_exchange(self) -> Exchange | None:
        return self.peer.options_exchange if self.peer else self.options_failed

    @property
    def resource(self) -> str:
        return self.request.resource_name


class Kubelet(PlayedKubelet[PluginPeer, Attempt]):
    """Serves `DIRECTORY/device-plugins/kubelet.sock`."""

    def __init__(self, directory: Path, recorder: Recorder, timeout: float) -> None:
        super().__init__(recorder, timeout)
        self.plugins = directory / "device-plugins"
        self.socket = self.plugins / "kubelet.sock"
        self._registry = directory / "plugins_registry"
        self._server = LinkedServer(directory, self.socket)

    async def start(self) -> None:
        """Remove the sockets of all plugins, as kubelet does, and serve. Raises SocketInUse."""
        prepare_socket(self.socket)
        prepare_directory(self._registry)
        for path in self.plugins.iterdir():
            if is_socket(path):
                path.unlink(missing_ok=True)
        handler: Any = grpc.unary_unary_rpc_method_handler(self._register)
        await self._server.start([grpc.method_handlers_generic_handler(REGISTER.service, {REGISTER.name: handler})])

    async def stop(self) -> None:
        """End as kubelet does: connections to plugins are closed, its socket is gone."""
        self._server.hide()
        await self.forget()
        await self._server.stop()

    def other_sockets(self) -> list[Path]:
        """Return the sockets of plugins that wait for a kubelet to find them."""
        return [path for path in self._registry.iterdir() if is_socket(path)]

    async def _register(self, raw: bytes, context: "grpc.aio.ServicerContext[Any, Any]") -> bytes:
        sent = Sent(REGISTER, "", incoming=True, request=raw)
        attempt = self._attempt(raw)
        sent.peer = attempt.resource
        attempt.fault = attempt.fault or await self._fault(attempt)
        if attempt.fault:
            sent.status, sent.error = "UNKNOWN", attempt.fault
        attempt.exchange = sent.done()
        self.recorder.add(attempt.exchange)
        if len(self.attempts) < MAX_ATTEMPTS:
            self.attempts.append(attempt)
        if attempt.fault:
            self.changes.notify()
            await context.abort(grpc.StatusCode.UNKNOWN, attempt.fault)
        if attempt.peer:
            attempt.peer.listen()
        self.changes.notify()
        return b""

    def _attempt(self, raw: bytes) -> Attempt:
        try:
            return Attempt(pb.RegisterRequest.FromString(raw))
        except DecodeError:
            return Attempt(pb.RegisterRequest(), fault="the request is not a valid RegisterRequest")

    async def _fault(self, attempt: Attempt) -> str:
        """Check in kubelet's order, and get the options as kubelet does: while the plugin waits."""
        request = attempt.request
        socket = self.plugins / request.endpoint
        attempt.endpoint_fault = endpoint_fault(request.endpoint)
        attempt.socket_fault = "" if attempt.endpoint_fault else _socket_fault(socket)
        if len(self.attempts) >= MAX_ATTEMPTS:
            return f"more than {MAX_ATTEMPTS} Register calls"
        if fault := self.rejection():
            return fault
        faults = (version_fault(request.version), resource_fault(request.resource_name), attempt.endpoint_fault)
        return next(filter(None, (*faults, attempt.socket_fault)), "") or await self._connect(attempt, socket)

    async def _connect(self, attempt: Attempt, socket: Path) -> str:
        peer = PluginPeer(attempt.resource, socket, self.recorder, min(DIAL_S, self.timeout))
        try:
            await peer.get_options()
        except CallFailed as error:
            attempt.options_fault, attempt.options_status = str(error), error.status
            attempt.options_failed = peer.options_exchange
            await peer.close()
            return f"failed to get device plugin options: {error}"
        peer.timeout = self.timeout
        attempt.peer = peer
        return ""


class ServedKubelet(Kubelet):
    """Connects to a plugin that serves already, as after its Register; the name of the socket stands for its name."""

    def __init__(self, socket: Path, recorder: Recorder, timeout: float) -> None:
        super().__init__(socket.parent, recorder, timeout)
        self._plugin = socket

    async def start(self) -> None:
        """Raises CallFailed."""
        attempt = Attempt(pb.RegisterRequest(resource_name=self._plugin.name))
        if fault := await self._connect(attempt, self._plugin):
            raise CallFailed("UNAVAILABLE", fault)
        if attempt.peer:
            attempt.peer.listen()
        self.attempts.append(attempt)
        self.changes.notify()

    async def stop(self) -> None:
        await self.forget()

    def other_sockets(self) -> list[Path]:
        return []


def _socket_fault(path: Path) -> str:
    if is_socket(path):
        return ""
    return f"{path} is not a socket" if os.path.lexists(path) else f"{path} does not exist"
