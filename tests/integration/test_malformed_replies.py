"""A peer's message that cannot be parsed is an error of its call, and the next good one is heard."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from actors.adopt.errors import KubeletUnavailable
from actors.adopt.kubelet_client import KubeletClient
from actors.devices.dra.errors import DriverFailed
from protocols.messages.devices import PreparedClaims
from protocols.podresources.client import PodResources
from protocols.wire import podresources_v1_pb2 as v1
from protocols.wire.methods import MalformedReply, Service, unix_channel
from protocols.wire.plugins import DRA_V1, GET_INFO, HEALTH_V1, NOTIFY, PREPARE
from protocols.wire.pod_resources import GET_ALLOCATABLE, LIST, LIST_AND_WATCH
from tests.integration.test_devices_watcher import running_watcher
from tests.integration.test_dra_health import DEVICE
from tests.support.device_node import until
from tests.support.dra_lab import asks, claim, running_lab
from tests.support.stub_driver import told_health


class Garbler:
    """Serves the pod resources API; with `garbled`, in bytes that are no message."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.garbled = True
        self.cancelled = asyncio.Event()

    def encode(self, reply: Any) -> bytes:
        return b"\xff\xff" if self.garbled else bytes(reply.SerializeToString())

    async def listed(self, request: Any, context: Any) -> Any:
        return v1.ListPodResourcesResponse()

    async def allocatable(self, request: Any, context: Any) -> Any:
        return v1.AllocatableResourcesResponse()

    async def watch(self, request: Any, context: Any) -> AsyncIterator[Any]:
        try:
            yield LIST_AND_WATCH.reply(
                action=v1.ListAndWatchPodResourcesResponse.ADDED,
                pod_resources=[v1.PodResources(name="a", namespace="b")],
            )
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()

    def service(self) -> Service:
        pods = Service().unary(LIST, self.listed, self.encode).stream(LIST_AND_WATCH, self.watch, self.encode)
        return pods.unary(GET_ALLOCATABLE, self.allocatable, self.encode)


@asynccontextmanager
async def garbler() -> AsyncIterator[Garbler]:
    root = Path(tempfile.mkdtemp(prefix="np", dir="/tmp"))
    made, server = Garbler(root / "s"), grpc.aio.server()
    server.add_generic_rpc_handlers((made.service().handler(),))
    server.add_insecure_port(f"unix:{made.socket}")
    await server.start()
    try:
        async with asyncio.timeout(60):
            yield made
    finally:
        await server.stop(None)
        shutil.rmtree(root)


async def test_malformed_reply_is_a_failed_call_without_a_traceback_in_the_log(caplog: Any) -> None:
    async with garbler() as peer, unix_channel(peer.socket) as channel:
        with pytest.raises(MalformedReply, match="the reply to List is not a valid ListPodResourcesResponse") as failed:
            await LIST.unary(channel)(v1.ListPodResourcesRequest())
        assert isinstance(failed.value, grpc.RpcError)
        assert failed.value.code() is grpc.StatusCode.INTERNAL
        peer.garbled = False
        assert await LIST.unary(channel)(v1.ListPodResourcesRequest()) == v1.ListPodResourcesResponse()
        assert caplog.text == ""


async def test_malformed_message_ends_its_stream() -> None:
    async with garbler() as peer, unix_channel(peer.socket) as channel:
        call = LIST_AND_WATCH.stream(channel)(v1.ListAndWatchPodResourcesRequest())
        with pytest.raises(MalformedReply, match="the reply to ListAndWatch is not"):
            await anext(aiter(call))
        await peer.cancelled.wait()
        read = LIST_AND_WATCH.stream(channel)(v1.ListAndWatchPodResourcesRequest())
        with pytest.raises(MalformedReply):
            await read.read()


async def test_kubelet_that_answers_garbage_is_unavailable_until_it_answers() -> None:
    async with garbler() as peer:
        client = KubeletClient(peer.socket)
        with pytest.raises(KubeletUnavailable, match="does not speak the pod resources API: the reply to List is not"):
            await client.list()
        with pytest.raises(KubeletUnavailable, match="GetAllocatableResources is not a valid"):
            await client.allocatable()
        peer.garbled = False
        assert list((await client.list()).pod_resources) == []
        await client.close()


async def test_pod_resources_client_outlives_garbage() -> None:
    async with garbler() as peer, PodResources(peer.socket) as client:
        with pytest.raises(grpc.aio.AioRpcError, match="not a valid"):
            await client.list()
        watch = client.watch()
        first = asyncio.ensure_future(anext(watch))
        await peer.cancelled.wait()
        peer.garbled = False
        assert (await first).pod.name == "a"
        await watch.aclose()  # type: ignore[attr-defined]  # a generator


@pytest.mark.parametrize("method", [GET_INFO, NOTIFY], ids=lambda method: method.name)
async def test_plugin_that_answers_garbage_registers_later_on_the_same_path(method: Any, caplog: Any) -> None:
    async with running_watcher() as lab:
        driver = lab.driver()
        driver.garbled.add(method.name)
        await driver.start()
        await until("rejected", lambda: f"the reply to {method.name} is not a valid" in caplog.text)
        driver.garbled.clear()
        await until("registered", lambda: [name for name, *_ in lab.taker.here] == [driver.name])


async def test_driver_whose_health_is_garbage_once_is_followed_again() -> None:
    async with running_lab() as lab:
        driver = lab.stub()
        driver.info.supported_versions.append(HEALTH_V1)
        driver.health = [told_health("dev-0")]
        driver.garbled.add("NodeWatchResources")
        await driver.start()
        await lab.settled(driver)
        await lab.prepare(asks("p", claim("a")))
        await until("asked again", lambda: driver.streams > 2)
        driver.garbled.clear()
        await lab.says(DEVICE, "Healthy")


async def test_claim_whose_driver_answers_garbage_is_prepared_later() -> None:
    async with running_lab() as lab:
        driver = await lab.driver()
        driver.garbled.add(PREPARE[DRA_V1].name)
        with pytest.raises(DriverFailed, match="the reply to NodePrepareResources is not a valid"):
            await lab.prepare(asks("p", claim("a")))
        driver.garbled.clear()
        assert (await lab.prepare(asks("p", claim("a")))) == PreparedClaims({"c": ("gpu.example.com/device=dev-0",)})
