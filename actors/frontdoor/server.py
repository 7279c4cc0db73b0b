"""The gRPC server on pod-resources/kubelet.sock."""

from dataclasses import dataclass
from pathlib import Path

import grpc.aio

from actors.frontdoor.lister import Lister
from actors.frontdoor.watch import Watch
from protocols.sockets import prepare_socket, private_sockets
from protocols.wire.methods import LIMITS, Service
from protocols.wire.pod_resources import (
    GET,
    GET_ALLOCATABLE,
    LIST,
    LIST_AND_WATCH,
    LIST_AND_WATCH_ALLOCATABLE,
    LIST_V1ALPHA1,
)


@dataclass(frozen=True)
class ServerOptions:
    socket: Path
    lister: Lister
    watch_pods: Watch
    watch_allocatable: Watch


class PodResourcesServer:
    def __init__(self, options: ServerOptions) -> None:
        self._options = options
        self._server = grpc.aio.server(options=LIMITS)
        self._server.add_generic_rpc_handlers((self._v1().handler(), self._v1alpha1().handler()))

    async def start(self) -> None:
        """Raises SocketInUse when another node agent serves there."""
        prepare_socket(self._options.socket)
        with private_sockets():
            self._server.add_insecure_port(f"unix:{self._options.socket}")
        await self._server.start()

    async def stop(self, grace: float) -> None:
        await self._server.stop(grace)

    def _v1(self) -> Service:
        lister = self._options.lister
        service = Service().unary(LIST, lister.list).unary(GET, lister.get)
        service.unary(GET_ALLOCATABLE, lister.get_allocatable)
        service.stream(LIST_AND_WATCH, self._options.watch_pods.call, encode=bytes)
        return service.stream(LIST_AND_WATCH_ALLOCATABLE, self._options.watch_allocatable.call, encode=bytes)

    def _v1alpha1(self) -> Service:
        return Service().unary(LIST_V1ALPHA1, self._options.lister.list_v1alpha1)
