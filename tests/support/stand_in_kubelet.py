"""Speaks kubelet's pod resources API of 1.36: lists of active pods in random order, plain errors without a code, one
bucket of 100 calls a second for everybody, an empty list until its pods are known. No watch."""

import random
import time
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from protocols.wire import podresources_v1_pb2 as v1
from protocols.wire.methods import LIMITS, Service
from protocols.wire.pod_resources import GET, GET_ALLOCATABLE, LIST

RATE, BURST = 100.0, 10.0


class StandInKubelet:
    """`pods` and `devices` are set by the test; they outlive `stop` and `start`, as a checkpoint does."""

    def __init__(self, socket: Path, seed: int = 1) -> None:
        self.socket = socket
        self.pods: dict[str, v1.PodResources] = {}
        """By uid; only active ones."""
        self.devices: dict[str, int | None] = {}
        """NUMA node of each healthy device of example.com/gpu."""
        self.cpus: list[int] = []
        self.synced = True
        """Its pod sources have told what there is."""
        self.tells_allocatable = True
        self.calls: list[str] = []
        self._random = random.Random(seed)
        self._tokens, self._at = BURST, time.monotonic()
        self._server: grpc.aio.Server | None = None

    async def start(self, synced: bool = True) -> None:
        self.synced = synced
        self.socket.parent.mkdir(mode=0o750, exist_ok=True)
        self._server = grpc.aio.server(options=LIMITS)
        service = Service().unary(LIST, self._list).unary(GET, self._get).unary(GET_ALLOCATABLE, self._allocatable)
        self._server.add_generic_rpc_handlers((service.handler(),))
        self._server.add_insecure_port(f"unix:{self.socket}")
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(0)
            self._server = None

    # what kubelet decides

    def admit(self, uid: str, name: str, devices: tuple[str, ...] = (), cpus: tuple[int, ...] = ()) -> None:
        containers = [item for pod in self.pods.values() for item in pod.containers]
        held = {id for item in containers for one in item.devices for id in one.device_ids}
        assert not held & set(devices), "a test gives a device to two pods"
        entries = [entry for id in devices for entry in self._entries(id)]
        main = v1.ContainerResources(name="main", devices=entries, cpu_ids=cpus)
        bare = v1.ContainerResources(name="bare")
        self.pods[uid] = v1.PodResources(name=name, namespace="default", containers=[main, bare])

    def release(self, uid: str) -> None:
        del self.pods[uid]

    # what it answers

    async def _list(self, request: v1.ListPodResourcesRequest, context: Any) -> v1.ListPodResourcesResponse:
        await self._take("List", context)
        pods = list(self.pods.values()) if self.synced else []
        return v1.ListPodResourcesResponse(pod_resources=[self._shuffled(pod) for pod in self._mixed(pods)])

    async def _get(self, request: v1.GetPodResourcesRequest, context: Any) -> v1.GetPodResourcesResponse:
        await self._take("Get", context)
        for pod in self.pods.values():
            if (pod.namespace, pod.name) == (request.pod_namespace, request.pod_name):
                return v1.GetPodResourcesResponse(pod_resources=pod)
        await context.abort(
            grpc.StatusCode.UNKNOWN, f"pod {request.pod_name} in namespace {request.pod_namespace} not found"
        )
        raise AssertionError

    async def _allocatable(
        self, request: v1.AllocatableResourcesRequest, context: Any
    ) -> v1.AllocatableResourcesResponse:
        await self._take("GetAllocatableResources", context)
        if not self.tells_allocatable:
            await context.abort(grpc.StatusCode.UNKNOWN, "Pod Resources API GetAllocatableResources disabled")
        devices = [entry for id in self._mixed(self.devices) for entry in self._entries(id)]
        return v1.AllocatableResourcesResponse(devices=devices, cpu_ids=self._mixed(self.cpus))

    def _entries(self, id: str) -> list[v1.ContainerDevices]:
        node = self.devices.get(id)
        topology = None if node is None else v1.TopologyInfo(nodes=[v1.NUMANode(ID=node)])
        return [v1.ContainerDevices(resource_name="example.com/gpu", device_ids=[id], topology=topology)]

    def _shuffled(self, pod: v1.PodResources) -> v1.PodResources:
        containers = [
            v1.ContainerResources(
                name=item.name, devices=self._mixed(item.devices), cpu_ids=self._mixed(item.cpu_ids), memory=item.memory
            )
            for item in pod.containers
        ]
        return v1.PodResources(name=pod.name, namespace=pod.namespace, containers=containers)

    def _mixed(self, items: Any) -> list[Any]:
        mixed = list(items)
        self._random.shuffle(mixed)
        return mixed

    async def _take(self, method: str, context: Any) -> None:
        now = time.monotonic()
        self._tokens, self._at = min(BURST, self._tokens + (now - self._at) * RATE), now
        if self._tokens < 1.0:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
        self._tokens -= 1.0
        self.calls.append(method)
