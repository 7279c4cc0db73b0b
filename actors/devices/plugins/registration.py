"""The registration server that plugins call: device-plugins/kubelet.sock.

At each start every socket in the directory is removed and kubelet.sock is bound anew: plugins watch for just that.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from actors.devices.model.errors import RegistrationRefused
from actors.devices.plugins.connections import Plugins
from actors.devices.plugins.resource_names import check_resource
from protocols.errors import NodeplaneError
from protocols.sockets import is_socket, prepare_socket, private_sockets
from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from protocols.wire.device_plugin import REGISTER, VERSION
from protocols.wire.methods import LIMITS, Service

AT_ONCE = 100
"""Register calls that wait for their plugins; more are told to come again."""


@dataclass(frozen=True)
class RegistrationOptions:
    socket: Path
    plugins: Plugins
    log: logging.Logger


class RegistrationServer:
    def __init__(self, options: RegistrationOptions) -> None:
        self._options = options
        self._server = grpc.aio.server(options=LIMITS, maximum_concurrent_rpcs=AT_ONCE)

    async def start(self) -> None:
        """Raises SocketInUse when another node agent lives in this directory."""
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
            await self._options.plugins.register(request.version, request.resource_name, request.endpoint)
        except NodeplaneError as error:
            self._options.log.warning("device plugin refused: %s", error)
            await context.abort(grpc.StatusCode.UNKNOWN, str(error))
        return pb.Empty()


def remove_sockets(directory: Path) -> None:
    """Plugins take the loss of their socket as the sign of a restart. Files and directories stay."""
    for path in directory.iterdir():
        if is_socket(path):
            path.unlink(missing_ok=True)


TYPE = "DevicePlugin"
"""PluginInfo.type of the plugins this is for."""


class WatchedPlugins:
    def __init__(self, plugins: Plugins) -> None:
        self._plugins = plugins

    def validate(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        """`name` is the resource, `endpoint` the absolute path of the plugin's socket; raises RegistrationRefused."""
        if VERSION not in versions:
            raise RegistrationRefused(
                f"manager version, {VERSION}, is not among plugin supported versions [{' '.join(versions)}]"
            )
        try:
            check_resource(name)
        except RegistrationRefused as error:
            raise RegistrationRefused(f"invalid name of device plugin socket: {error}") from None
        if not Path(endpoint).is_absolute():
            raise RegistrationRefused(f'the endpoint "{endpoint}" is invalid: it must be an absolute path')

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        """Connected and asked for its options when this returns; raises RegistrationRefused or PluginUnreachable."""
        self.validate(name, endpoint, versions)
        await self._plugins.connect(name, Path(endpoint))

    async def deregister(self, name: str, endpoint: str) -> None:
        """The plugin's socket is gone: its devices are Unknown, and forgotten after the grace."""
        await self._plugins.disconnect(name, Path(endpoint))
