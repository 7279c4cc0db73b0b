"""Two processes and the calls between them, each printed: what `tests/simulation/test_calls.py` reads."""

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from protocols.process import sockets as product_sockets
from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from protocols.wire.methods import MalformedReply, Service, unix_channel
from protocols.wire.plugins import ALLOCATE, GET_OPTIONS, LIST_AND_WATCH, PRE_START
from tests.simulation.calls.install import install as install_calls
from tests.simulation.calls.sockets import Sockets
from tests.simulation.world.install import install
from tests.simulation.world.process import Process
from tests.simulation.world.world import World

LONG = 1_000_000


class Tried:
    """A server with one method of each way to end, and a client that the world runs."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed, Path(tempfile.mkdtemp(prefix="calls-", dir="/dev/shm")))
        self.sockets: Sockets = install_calls(self.world)
        install(self.world)
        self.path = self.world.root / "p.sock"
        self.written = self.cancelled = 0
        self.world.mains = {"server": self._serve, "client": self._serve}
        self.found: Any = None

    async def _serve(self, process: Process) -> None:
        server = process.notes["server"] = grpc.aio.server()
        service = Service().unary(GET_OPTIONS, self._options).unary(ALLOCATE, self._slow)
        service.unary(PRE_START, self._abort).stream(LIST_AND_WATCH, self._numbers)
        server.add_generic_rpc_handlers((service.handler(),))
        server.add_insecure_port(f"unix:{self.path}")
        await server.start()
        await asyncio.Event().wait()

    async def _options(self, request: Any, context: Any) -> pb.DevicePluginOptions:
        return pb.DevicePluginOptions(pre_start_required=True)

    async def _slow(self, request: Any, context: Any) -> pb.AllocateResponse:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return pb.AllocateResponse()

    async def _abort(self, request: Any, context: Any) -> Any:
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not now")

    async def _numbers(self, request: Any, context: Any) -> AsyncIterator[pb.ListAndWatchResponse]:
        for number in range(LONG):
            self.written = number + 1
            yield pb.ListAndWatchResponse(devices=[pb.Device(ID=str(number))])

    def ask(self, work: Any, seconds: float = 60.0) -> Any:
        """Run a coroutine function of a channel in the client, and return what it returns or raises."""

        async def main(process: Process) -> None:
            async with unix_channel(self.path) as channel:
                try:
                    self.found = await work(channel)
                except (grpc.aio.AioRpcError, asyncio.CancelledError, TimeoutError) as error:
                    self.found = error
            await asyncio.Event().wait()

        self.found = None
        self.world.kill("client")
        self.world.spawn("client", main)
        self.world.run(seconds)
        return self.found

    def begin(self) -> None:
        self.world.spawn("server")
        self.world.run(0.5)


async def options(channel: Any) -> Any:
    return await GET_OPTIONS.unary(channel)(pb.Empty(), timeout=5)


def code(found: Any) -> str:
    return f"{found.code().name}: {found.details()}" if isinstance(found, grpc.aio.AioRpcError) else repr(found)


def show(tried: Tried) -> dict[str, str]:
    """Try everything and return the outcomes by name."""
    world, seen = tried.world, {}
    seen["no socket"] = code(tried.ask(options)).partition(":")[0]
    tried.begin()
    seen["answered"] = str(tried.ask(options).pre_start_required)
    seen["aborted"] = code(tried.ask(lambda channel: PRE_START.unary(channel)(pb.PreStartContainerRequest())))
    began = world.now
    late = tried.ask(lambda channel: ALLOCATE.unary(channel)(pb.AllocateRequest(), timeout=2), 5)
    seen["deadline"] = f"{code(late)} cancelled={tried.cancelled} {world.now - began:.0f}s"
    seen["unknown method"] = code(tried.ask(_unknown)).partition(":")[0]
    tried.sockets.malformed["server"] = 1
    seen["malformed"] = type(tried.ask(options)).__name__
    seen["well again"] = str(tried.ask(options).pre_start_required)
    seen["stream"] = str(tried.ask(_order))
    tried.written = 0
    tried.ask(_slow_reader, 20)
    seen["back-pressure"] = str(tried.written < LONG / 10)
    seen["paused"] = _paused(tried)
    seen["stalled"] = _stalled(tried)
    seen["cut"] = code(_while_waiting(tried, lambda: _cut(world))).partition(":")[0]
    seen["killed"] = code(_while_waiting(tried, lambda: world.kill("server"))).partition(":")[0]
    seen["nobody listens"] = f"{code(tried.ask(options)).partition(':')[0]} {product_sockets.answers(tried.path)}"
    tried.begin()
    seen["bound anew"] = f"{tried.ask(options).pre_start_required} {product_sockets.answers(tried.path)}"
    tried.path.rename(tried.path.with_suffix(".moved"))
    seen["renamed away"] = code(tried.ask(options)).partition(":")[0]
    tried.path.with_suffix(".moved").rename(tried.path)
    seen["renamed back"] = str(tried.ask(options).pre_start_required)
    seen["failures"] = str([type(MalformedReply).__name__, *tried.sockets.failures][1:])
    return seen


async def _unknown(channel: Any) -> Any:
    return await channel.unary_unary("/no.such.Service/Method")(b"")


async def _order(channel: Any) -> bool:
    read = []
    call = LIST_AND_WATCH.stream(channel)(pb.Empty())
    async for message in call:
        read.append(int(message.devices[0].ID))
        if len(read) == 500:
            call.cancel()
            break
    return read == list(range(500))


async def _slow_reader(channel: Any) -> None:
    call = LIST_AND_WATCH.stream(channel)(pb.Empty())
    await call.read()
    await asyncio.sleep(1000)


def _paused(tried: Tried) -> str:
    """A paused server answers once it goes on."""
    server = tried.world.processes["server"]
    server.paused_until = tried.world.now + 3
    return f"{tried.ask(options, 2)} {tried.ask(options, 4).pre_start_required}"


def _stalled(tried: Tried) -> str:
    tried.sockets.stall("server", "client", tried.world.now + 8)
    return f"{code(tried.ask(options, 7)).partition(':')[0]} {tried.ask(options).pre_start_required}"


def _while_waiting(tried: Tried, fault: Any) -> Any:
    tried.world.at(1.0, None, fault)
    return tried.ask(lambda channel: ALLOCATE.unary(channel)(pb.AllocateRequest()), 3)


def _cut(world: World) -> None:
    for end in list(world.processes["client"].ends):
        if hasattr(end, "cut"):
            end.cut()


if __name__ == "__main__":
    tried = Tried(int(sys.argv[1]))
    for name, text in show(tried).items():
        print(f"{name}: {text}")
    print(f"trace: {tried.world.trace.digest()}")
