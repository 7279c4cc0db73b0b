"""The registration server that plugins call: device-plugins/kubelet.sock.

At each start every socket in the directory is removed and kubelet.sock is bound anew: plugins watch for just that.
"""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from actors.devices.plugins.plugins import Plugins
from protocols.errors import NodeplaneError
from protocols.sockets import is_socket, prepare_socket, private_sockets
from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from protocols.wire.device_plugin import REGISTER
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
