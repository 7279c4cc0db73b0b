"""A gRPC server behind an entrance: one public socket with its services, health and reflection among them."""

from collections.abc import Iterable
from dataclasses import dataclass

import grpc
import grpc.aio

from actors.frontdoor.entrance.reception import Reception
from actors.frontdoor.late import HEALTH, LateServices
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

PATIENT = (
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 1000),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.max_concurrent_streams", 1024),
)
"""Clients ping as often as they like: a watch that is silent for days must not be ended for it. We never ping: a unix
socket tells when the other end is gone. Calls at once on one connection are bounded."""


@dataclass(frozen=True)
class ServerOptions:
    reception: Reception
    services: tuple[Service, ...]
    health_address: str = ""
    """HOST:PORT of a second server, with health alone; empty = none."""


class Server:
    def __init__(self, options: ServerOptions) -> None:
        self._options = options
        self.late = LateServices(service.name for service in options.services)
        self._server = grpc.aio.server(options=(*LIMITS, *PATIENT))
        handlers: Iterable[grpc.GenericRpcHandler] = (item.handler() for item in options.services)
        self._server.add_generic_rpc_handlers((*handlers, self.late))
        self._outside: grpc.aio.Server | None = None
        self.health_port = 0

    def serving(self, synced: bool) -> None:
        """What health says of the services; the server itself is well either way."""
        for service in self._options.services:
            self.late.set(service.name, synced)

    async def start(self) -> None:
        """Raises SocketInUse when another node agent serves there."""
        place = self._options.reception.place
        prepare_socket(place.private)
        with private_sockets():
            self._server.add_insecure_port(f"unix:{place.private}")
        await self._server.start()
        await self._options.reception.entrance.start()
        if self._options.health_address:
            await self._open_outside()

    async def _open_outside(self) -> None:
        self._outside = grpc.aio.server()
        self._outside.add_generic_rpc_handlers((self.late.only(HEALTH),))
        self.health_port = self._outside.add_insecure_port(self._options.health_address)
        await self._outside.start()

    async def stop(self, grace: float) -> None:
        self._options.reception.entrance.shut()
        if self._outside:
            await self._outside.stop(0)
        await self._server.stop(grace)
        self._options.reception.entrance.close()


@dataclass(frozen=True)
class PodResources:
    """What answers the methods of pod resources."""

    lister: Lister
    watch_pods: Watch
    watch_allocatable: Watch

    def services(self) -> tuple[Service, ...]:
        """v1 and v1alpha1. All replies are bytes already."""
        v1 = Service().unary(LIST, self.lister.list, encode=bytes).unary(GET, self.lister.get, encode=bytes)
        v1.unary(GET_ALLOCATABLE, self.lister.get_allocatable, encode=bytes)
        v1.stream(LIST_AND_WATCH, self.watch_pods.call, encode=bytes)
        v1.stream(LIST_AND_WATCH_ALLOCATABLE, self.watch_allocatable.call, encode=bytes)
        return v1, Service().unary(LIST_V1ALPHA1, self.lister.list_v1alpha1, encode=bytes)
