"""Registration of device plugins, by a Register call or by a socket in plugins_registry/.

At each start every socket in device-plugins/ is removed and kubelet.sock bound anew: plugins watch for that.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import msgspec

from actors.devices.calls.log import CallLog, CallPeer, Purpose
from actors.devices.model.errors import RegistrationRejected
from actors.devices.plugins.connections import PluginConnections
from protocols.errors import NodeplaneError
from protocols.process.sockets import is_socket, prepare_socket, private_sockets
from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from protocols.wire.methods import SERVER_LIMITS, Service
from protocols.wire.plugin_names import registry_fault
from protocols.wire.plugins import REGISTER

MAX_CONCURRENT_REGISTRATIONS = 100
"""Concurrent Register calls; further ones are rejected with RESOURCE_EXHAUSTED."""


class RegistrationOptions(msgspec.Struct, frozen=True):
    """The socket to serve, kubelet.sock."""

    socket: Path
    plugins: PluginConnections
    log: logging.Logger
    calls: CallLog = msgspec.field(default_factory=CallLog)


class RegistrationServer:
    """gRPC server of the Registration service."""

    def __init__(self, options: RegistrationOptions) -> None:
        self._options = options
        self._server = grpc.aio.server(options=SERVER_LIMITS, maximum_concurrent_rpcs=MAX_CONCURRENT_REGISTRATIONS)

    async def start(self) -> None:
        """Raises SocketInUse if another node agent uses this directory."""
        prepare_socket(self._options.socket)
        remove_sockets(self._options.socket.parent)
        self._server.add_generic_rpc_handlers((Service().unary(REGISTER, self._register).handler(),))
        with private_sockets():
            self._server.add_insecure_port(f"unix:{self._options.socket}")
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop(0.5)

    async def _register(self, request: pb.RegisterRequest, context: "grpc.aio.ServicerContext[Any, Any]") -> pb.Empty:
        try:
            await self._recorded(request, context.time_remaining() or 0.0)
        except NodeplaneError as error:
            self._options.log.warning("device plugin rejected error=%s", error)
            await context.abort(grpc.StatusCode.UNKNOWN, str(error))
        return pb.Empty()

    async def _recorded(self, request: pb.RegisterRequest, deadline: float) -> None:
        """Register a plugin and record its call. Raises the error that the plugin is sent."""
        peer = CallPeer(request.resource_name, request.endpoint, known=False)
        purpose = Purpose(if_failed="registration rejected")
        with self._options.calls.call(peer, REGISTER, deadline=deadline, purpose=purpose, incoming=True) as call:
            call.asked(request)
            try:
                await self._options.plugins.register(request.version, request.resource_name, request.endpoint)
            except NodeplaneError as error:
                call.status, call.error = "UNKNOWN", str(error)
                raise
            call.peer, call.outcome = msgspec.structs.replace(peer, known=True), "registered"


def remove_sockets(directory: Path) -> None:
    """Remove the sockets; plugins take that as a restart of kubelet. Other files stay."""
    for path in directory.iterdir():
        if is_socket(path):
            path.unlink(missing_ok=True)


class RegistryHandler:
    """Handler of sockets in plugins_registry/ whose type is DevicePlugin."""

    def __init__(self, plugins: PluginConnections) -> None:
        self._plugins = plugins

    def validate(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        """Check a plugin's resource `name` and the absolute path of its socket. Raises RegistrationRejected."""
        if fault := registry_fault(name, versions):
            raise RegistrationRejected(fault)
        if not Path(endpoint).is_absolute():
            raise RegistrationRejected(f'the endpoint "{endpoint}" is invalid: it must be an absolute path')

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        """Connect and get the options. Raises RegistrationRejected or PluginUnreachable."""
        self.validate(name, endpoint, versions)
        await self._plugins.connect(name, Path(endpoint))

    async def deregister(self, name: str, endpoint: str) -> None:
        """Disconnect a plugin whose socket is gone; its grace period starts."""
        await self._plugins.disconnect(name, Path(endpoint))
