"""A device plugin in the test's own process, whose every answer the test decides, and which counts its calls."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from protocols.wire.methods import Service, unix_channel
from protocols.wire.plugins import (
    ALLOCATE,
    GET_OPTIONS,
    GET_PREFERRED,
    LIST_AND_WATCH,
    PRE_START,
    REGISTER,
    VERSION,
)
from tests.support.waiting import until_async


class StubPlugin:
    def __init__(self, directory: Path, resource: str = "example.com/gpu", endpoint: str = "stub.sock") -> None:
        self.directory, self.resource, self.endpoint = directory, resource, endpoint
        self.devices: list[pb.Device] = []
        self.calls: list[tuple[str, Any]] = []
        self.options = pb.DevicePluginOptions()
        self.answer = pb.ContainerAllocateResponse(envs={"STUB": "1"})
        self.answers = 1
        """Containers in the answer of Allocate."""
        self.preferred: list[str] = []
        self.fail: dict[str, str] = {}
        """Method -> error text; `allocated`: Allocate after `hang`."""
        self.hang = asyncio.Event()
        """Set = Allocate answers; clear it to let it hang."""
        self.hang.set()
        self._changed = asyncio.Event()
        self._over = False
        self._server: grpc.aio.Server | None = None

    def with_devices(self, *ids: str, numa: dict[str, int] | None = None) -> "StubPlugin":
        self.devices = [device(id, numa=(numa or {}).get(id)) for id in ids]
        return self

    async def serve(self) -> None:
        self._over = False
        self._server = grpc.aio.server()
        service = Service().unary(GET_OPTIONS, self._options).stream(LIST_AND_WATCH, self._list)
        service.unary(ALLOCATE, self._allocate).unary(PRE_START, self._pre_start)
        self._server.add_generic_rpc_handlers((service.unary(GET_PREFERRED, self._preferred).handler(),))
        self._server.add_insecure_port(f"unix:{self.directory / self.endpoint}")
        await self._server.start()

    async def register(self, version: str = VERSION, resource: str = "", endpoint: str = "") -> None:
        request = pb.RegisterRequest(
            version=version, resource_name=resource or self.resource, endpoint=endpoint or self.endpoint
        )
        async with unix_channel(self.directory / "kubelet.sock") as channel:
            await REGISTER.unary(channel)(request, timeout=40)

    async def start(self) -> "StubPlugin":
        await self.serve()
        await self.register()
        return self

    async def start_soon(self) -> "StubPlugin":
        """As start, but the node may still be on its way."""
        await self.serve()
        refused = (grpc.aio.AioRpcError,)
        await until_async(f"{self.resource} registered", self.register, errors=refused, good=lambda answer: True)
        return self

    async def stop(self) -> None:
        if self._server is not None:
            self._over = True
            self.change()
            self.hang.set()
            await self._server.stop(5.0)
            self._server = None

    def change(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def set_health(self, **health: str) -> None:
        """set_health(a="Unhealthy"): send the list with that change."""
        for item in self.devices:
            item.health = health.get(item.ID, item.health)
        self.change()

    def called(self, method: str) -> list[Any]:
        return [request for name, request in self.calls if name == method]

    async def _note(self, method: str, request: Any, context: Any) -> None:
        self.calls.append((method, request))
        if method in self.fail:
            await context.abort(grpc.StatusCode.INTERNAL, self.fail[method])

    async def _options(self, request: pb.Empty, context: Any) -> pb.DevicePluginOptions:
        await self._note("options", request, context)
        return self.options

    async def _list(self, request: pb.Empty, context: Any) -> AsyncIterator[pb.ListAndWatchResponse]:
        await self._note("list", request, context)
        while not self._over:
            changed = self._changed
            yield pb.ListAndWatchResponse(devices=self.devices)
            await changed.wait()

    async def _allocate(self, request: pb.AllocateRequest, context: Any) -> pb.AllocateResponse:
        await self._note("allocate", request, context)
        await self.hang.wait()
        if "allocated" in self.fail:
            await context.abort(grpc.StatusCode.INTERNAL, self.fail["allocated"])
        return pb.AllocateResponse(container_responses=[self.answer] * self.answers)

    async def _pre_start(self, request: pb.PreStartContainerRequest, context: Any) -> pb.PreStartContainerResponse:
        await self._note("pre_start", request, context)
        return pb.PreStartContainerResponse()

    async def _preferred(self, request: pb.PreferredAllocationRequest, context: Any) -> pb.PreferredAllocationResponse:
        await self._note("preferred", request, context)
        answer = pb.ContainerPreferredAllocationResponse(deviceIDs=self.preferred)
        return pb.PreferredAllocationResponse(container_responses=[answer])


def device(id: str, health: str = "Healthy", numa: int | None = None) -> pb.Device:
    topology = None if numa is None else pb.TopologyInfo(nodes=[pb.NUMANode(ID=numa)])
    return pb.Device(ID=id, health=health, topology=topology)
