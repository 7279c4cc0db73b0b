"""The played kubelet: a Registration server that stops, starts anew and rejects as a script orders."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from protocols.process.sockets import is_socket, prepare_directory, prepare_socket
from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from protocols.wire import pluginregistration_v1_pb2 as registration
from protocols.wire.plugin_names import endpoint_fault, registry_fault, resource_fault, version_fault
from protocols.wire.plugins import DEVICE_PLUGIN, GET_INFO, NOTIFY, REGISTER, VERSION
from supervisor.conform.exchange import Exchange, ExchangeRecorder, Sent
from supervisor.conform.linked_server import LinkedServer
from supervisor.conform.peer import PluginPeer
from supervisor.conform.played import MAX_ATTEMPTS, PlayedKubelet, Registration
from supervisor.conform.registry import Registrar, Registry, is_served, sockets_below
from supervisor.conform.verdict import CallFailed

DIAL_S = 10.0
"""kubelet's deadline for the answer of a plugin that registers."""


@dataclass
class RegisterCall(Registration[PluginPeer]):
    """One Register call."""

    request: pb.RegisterRequest
    endpoint_fault: str = ""
    socket_fault: str = ""
    """Fault of the endpoint's socket; empty if none."""
    options_fault: str = ""
    """Why GetDevicePluginOptions failed."""
    options_status: str = ""
    """Code of that failure."""
    options_failed: Exchange | None = None
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


class Kubelet(PlayedKubelet[PluginPeer, RegisterCall]):
    """Serves `DIRECTORY/device-plugins/kubelet.sock`, and finds plugins by sockets in `DIRECTORY/plugins_registry`."""

    def __init__(self, directory: Path, recorder: ExchangeRecorder, timeout: float) -> None:
        super().__init__(recorder, timeout)
        self.plugins = directory / "device-plugins"
        self.socket = self.plugins / "kubelet.sock"
        self._registry = directory / "plugins_registry"
        self._server = LinkedServer(directory, self.socket)
        self._of_plugins: set[Path] = set()
        self.has_others = False
        """True once a socket in plugins_registry/ was another's than a device plugin's."""
        self._sockets = Registry(lambda: sockets_below(self._registry), self.changes, self._found, self.disconnect)

    async def start(self) -> None:
        """Remove the sockets of all plugins, as kubelet does, and serve. Raises SocketInUse."""
        prepare_socket(self.socket)
        prepare_directory(self._registry)
        for path in self.plugins.iterdir():
            if is_socket(path):
                path.unlink(missing_ok=True)
        handler: Any = grpc.unary_unary_rpc_method_handler(self._register)
        await self._server.start([grpc.method_handlers_generic_handler(REGISTER.service, {REGISTER.name: handler})])
        self._sockets.start()

    async def stop(self) -> None:
        """End as kubelet does: connections to plugins are closed, its socket is gone."""
        self._server.hide()
        await self._sockets.stop()
        await self.forget()
        await self._server.stop()

    def remove_sockets(self) -> None:
        """Remove what ended plugins leave in plugins_registry/: a starting kubelet does not."""
        for path in self._of_plugins:
            if not is_served(path):
                path.unlink(missing_ok=True)

    async def _found(self, path: Path) -> bool:
        """Register what serves a socket; return True once it is, or is none of a plugin's."""
        registrar = Registrar(path.name, path, self.recorder, self.timeout)
        try:
            info = await registrar.call(GET_INFO, registration.InfoRequest())
            if info.type != DEVICE_PLUGIN or len(self.attempts) >= MAX_ATTEMPTS:
                self.has_others = self.has_others or info.type != DEVICE_PLUGIN
                return True
            self._of_plugins.add(path)
            attempt = RegisterCall(_as_request(info, path), socket=path, exchange=registrar.last)
            attempt.fault = self.rejection() or registry_fault(info.name, info.supported_versions)
            attempt.fault = attempt.fault or await self._connect(attempt, _endpoint(info, path))
            await self._notify(registrar, attempt)
        except CallFailed:
            return False
        finally:
            await registrar.close()
        self.attempts.append(attempt)
        if attempt.peer:
            attempt.peer.listen()
        self.changes.notify()
        return attempt.peer is not None

    async def _notify(self, registrar: Registrar, attempt: RegisterCall) -> None:
        """Report the result; a plugin that does not take it is not registered."""
        status = registration.RegistrationStatus(plugin_registered=not attempt.fault, error=attempt.fault)
        try:
            await registrar.call(NOTIFY, status)
        except CallFailed as error:
            attempt.fault = attempt.fault or str(error)
            if attempt.peer:
                await attempt.peer.close()
                attempt.peer = None

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

    def _attempt(self, raw: bytes) -> RegisterCall:
        try:
            return RegisterCall(pb.RegisterRequest.FromString(raw))
        except DecodeError:
            return RegisterCall(pb.RegisterRequest(), fault="the request is not a valid RegisterRequest")

    async def _fault(self, attempt: RegisterCall) -> str:
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

    async def _connect(self, attempt: RegisterCall, socket: Path) -> str:
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

    def __init__(self, socket: Path, recorder: ExchangeRecorder, timeout: float) -> None:
        super().__init__(socket.parent, recorder, timeout)
        self._plugin = socket

    async def start(self) -> None:
        """Raises CallFailed."""
        attempt = RegisterCall(pb.RegisterRequest(resource_name=self._plugin.name))
        if fault := await self._connect(attempt, self._plugin):
            raise CallFailed("UNAVAILABLE", fault)
        if attempt.peer:
            attempt.peer.listen()
        self.attempts.append(attempt)
        self.changes.notify()

    async def stop(self) -> None:
        await self.forget()


def _as_request(info: registration.PluginInfo, path: Path) -> pb.RegisterRequest:
    """Return the Register call that says the same."""
    versions = list(info.supported_versions)
    version = VERSION if VERSION in versions else ", ".join(versions)
    return pb.RegisterRequest(version=version, endpoint=_endpoint(info, path).name, resource_name=info.name)


def _endpoint(info: registration.PluginInfo, path: Path) -> Path:
    return Path(info.endpoint) if info.endpoint else path


def _socket_fault(path: Path) -> str:
    if is_socket(path):
        return ""
    return f"{path} is not a socket" if os.path.lexists(path) else f"{path} does not exist"
