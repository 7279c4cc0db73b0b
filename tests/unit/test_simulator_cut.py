"""A simulated death: every call and stream of the server ends as after kill -9, and its socket stays."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc.aio

from actors.simulator.engine.playback import cut
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


async def test_cut_ends_every_call_and_stream_as_a_death_does(tmp_path: Path) -> None:
    path, plugin, server = tmp_path / "s", Hanging(), grpc.aio.server()
    service = Service().unary(ALLOCATE, plugin.allocate).stream(LIST_AND_WATCH, plugin.lists)
    server.add_generic_rpc_handlers((service.handler(),))
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    async with unix_channel(path) as one, unix_channel(path) as other:
        calls = [asyncio.create_task(status_of_call(channel)) for channel in (one, other) * CALLS]
        streams = [asyncio.create_task(status_of_stream(channel)) for channel in (one, other) * CALLS]
        await until_async("all calls and streams", lambda: plugin.begun == len(calls) + len(streams))
        await cut(server, path)
        assert set(await asyncio.gather(*calls, *streams)) == {grpc.StatusCode.UNAVAILABLE}
    assert path.is_socket()
