"""Deaths of a plugin, simulated ones too: how its calls and streams end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from actors.devices.calls.log import CallLog
from actors.devices.model.errors import PluginFailed
from actors.devices.model.types import CallDeadlines
from actors.devices.plugins.plugin import Plugin, PluginEndpoint
from actors.simulator.engine.playback import cut, listen
from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from protocols.wire.methods import Service, unix_channel
from protocols.wire.plugins import ALLOCATE, LIST_AND_WATCH
from tests.support.waiting import until_async

CALLS = 30


class Hanging:
    """A plugin of which nothing ends by itself."""

    def __init__(self) -> None:
        self.begun = 0

    async def allocate(self, request: pb.AllocateRequest, context: Any) -> pb.AllocateResponse:
        self.begun += 1
        await asyncio.Event().wait()
        raise AssertionError

    async def lists(self, request: pb.Empty, context: Any) -> AsyncIterator[pb.ListAndWatchResponse]:
        self.begun += 1
        yield pb.ListAndWatchResponse()
        await asyncio.Event().wait()


async def status_of_call(channel: grpc.aio.Channel) -> grpc.StatusCode:
    try:
        await ALLOCATE.unary(channel)(pb.AllocateRequest())
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


async def status_of_stream(channel: grpc.aio.Channel) -> grpc.StatusCode:
    try:
        async for _ in LIST_AND_WATCH.stream(channel)(pb.Empty()):
            pass
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


@asynccontextmanager
async def hanging(path: Path) -> AsyncIterator[tuple[Hanging, grpc.aio.Server]]:
    plugin, server = Hanging(), grpc.aio.server()
    service = Service().unary(ALLOCATE, plugin.allocate).stream(LIST_AND_WATCH, plugin.lists)
    server.add_generic_rpc_handlers((service.handler(),))
    await listen(server, path)
    try:
        yield plugin, server
    finally:
        await server.stop(None)


async def test_cut_ends_every_call_and_stream_as_a_death_does(tmp_path: Path) -> None:
    path = tmp_path / "s"
    async with hanging(path) as (plugin, server), unix_channel(path) as one, unix_channel(path) as other:
        calls = [asyncio.create_task(status_of_call(channel)) for channel in (one, other) * CALLS]
        streams = [asyncio.create_task(status_of_stream(channel)) for channel in (one, other) * CALLS]
        await until_async("all calls and streams", lambda: plugin.begun == len(calls) + len(streams))
        await cut(server, path)
        assert set(await asyncio.gather(*calls, *streams)) == {grpc.StatusCode.UNAVAILABLE}
        assert path.is_socket()


async def test_call_of_a_plugin_whose_stream_ended_fails_and_is_not_cancelled(tmp_path: Path) -> None:
    calls = CallLog()
    async with hanging(tmp_path / "s") as (served, _):
        plugin = Plugin(PluginEndpoint("example.com/gpu", tmp_path / "s", CallDeadlines(), calls))
        call = asyncio.create_task(plugin.allocate(["gpu-0"]))
        await until_async("the call", lambda: served.begun == 1)
        await plugin.close()
        with pytest.raises(PluginFailed, match="the connection was closed during Allocate"):
            await call


async def test_call_of_a_caller_that_is_cancelled_is(tmp_path: Path) -> None:
    async with hanging(tmp_path / "s") as (served, _):
        plugin = Plugin(PluginEndpoint("example.com/gpu", tmp_path / "s", CallDeadlines()))
        call = asyncio.create_task(plugin.allocate(["gpu-0"]))
        await until_async("the call", lambda: served.begun == 1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await plugin.close()


async def test_call_of_a_plugin_that_died_ends_with_its_status_though_the_connection_is_closed(tmp_path: Path) -> None:
    path, calls = tmp_path / "s", CallLog()
    async with hanging(path) as (served, server):
        plugin = Plugin(PluginEndpoint("example.com/gpu", path, CallDeadlines(), calls))
        call = asyncio.create_task(plugin.allocate(["gpu-0"]))
        await until_async("the call", lambda: served.begun == 1)
        await asyncio.gather(cut(server, path), plugin.close())
        with pytest.raises(PluginFailed, match="code = Unavailable"):
            await call
