"""The other processes of the front door's bench: clients that note when an event came, and the floor's bare server.

`python -m tests.bench.frontdoor_roles ROLE SOCKET [COUNT]`; each says `ready`, and its findings as one line of JSON.
"""

import asyncio
import json
import resource
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

import grpc.aio
import uvloop

from protocols.wire import podresources_v1_pb2 as v1
from protocols.wire.methods import LIMITS, Service, unix_channel
from protocols.wire.pod_resources import LIST, LIST_AND_WATCH
from tests.bench.frontdoor_http2 import DATA, HELLO, MORE, frames, watch_request

PAUSE_S = 0.003
MANY_CALLS = (("grpc.server.max_pending_requests", 16384), ("grpc.server.max_pending_requests_hard_limit", 32768))
"""As the front door: beyond its limit gRPC drops calls."""
CALLERS = 4


async def watch(socket: str, count: str) -> None:
    """One client: uid and moment of each ADDED."""
    seen: dict[str, int] = {}
    async with unix_channel(socket) as channel:
        call = LIST_AND_WATCH.stream(channel)(v1.ListAndWatchPodResourcesRequest())
        await call.initial_metadata()
        print("ready", flush=True)
        async for event in call:
            now = time.monotonic_ns()
            if event.action == v1.ListAndWatchPodResourcesResponse.ADDED:
                seen[event.uid] = now
                if len(seen) == int(count):
                    break
    print(json.dumps(seen), flush=True)


async def crowd(socket: str, count: str, rounds: str) -> None:
    """Many connections with a watch each, read as cheaply as can be: what is measured is the server.
    Moments at which each of them had each event, one list per event."""
    moments: list[list[int]] = [[] for _ in range(int(rounds))]
    opened, whole = asyncio.Event(), asyncio.Event()

    class Watcher(asyncio.Protocol):
        waiting = int(count)

        def __init__(self) -> None:
            self._rest, self._events = b"", 0

        def connection_made(self, transport: Any) -> None:
            self._transport = transport
            transport.write(HELLO + watch_request("/v1.PodResourcesLister/ListAndWatch"))

        def data_received(self, data: bytes) -> None:
            now, self._rest = time.monotonic_ns(), self._rest + data
            found, self._rest = frames(self._rest)
            for kind in found:
                if kind == DATA:
                    moments[self._events].append(now)
                    self._events += 1
                    self._transport.write(MORE)
                    if len(moments[-1]) == int(count):
                        whole.set()
                elif kind == 1 and not self._events:
                    Watcher.waiting -= 1
                    if not Watcher.waiting:
                        opened.set()

    loop = asyncio.get_running_loop()
    for _ in range(int(count)):
        await loop.create_unix_connection(Watcher, socket)
    await opened.wait()
    print("ready", flush=True)
    await whole.wait()
    print(json.dumps(moments), flush=True)


async def bare(socket: str, reply: str) -> None:
    """grpc.aio and nothing else: a stream of messages with the moment they were sent, and List with a reply of the
    given size."""
    body = bytes(int(reply))

    async def stream(request: Any, context: Any) -> None:
        await context.send_initial_metadata(())
        while True:
            await asyncio.sleep(PAUSE_S)
            now = str(time.monotonic_ns())
            message = v1.ListAndWatchPodResourcesResponse(uid=now, pod_resources=[v1.PodResources(name="p" * 60)])
            await context.write(message.SerializeToString())

    async def listed(request: Any, context: Any) -> bytes:
        return body

    server = grpc.aio.server(options=(*LIMITS, *MANY_CALLS))
    service = Service().unary(LIST, listed, encode=bytes).stream(LIST_AND_WATCH, stream, encode=bytes)
    server.add_generic_rpc_handlers((service.handler(),))
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    print("ready", flush=True)
    await asyncio.Event().wait()


async def lister(socket: str, count: str, seconds: str) -> None:
    """List one after another, undecoded: seconds of each; then how many go in a second."""
    async with unix_channel(socket) as channel:
        call: Any = channel.unary_unary(LIST.path)
        print("ready", flush=True)
        for _ in range(50):
            await call(b"")
        taken = []
        for _ in range(int(count)):
            began = time.perf_counter()
            await call(b"")
            taken.append(time.perf_counter() - began)
        rate = await _rate(call, float(seconds))
    print(json.dumps({"taken": taken, "rate": rate}), flush=True)


async def _rate(call: Any, seconds: float) -> float:
    done, began = 0, time.perf_counter()

    async def work() -> None:
        nonlocal done
        while time.perf_counter() - began < seconds:
            await call(b"")
            done += 1

    await asyncio.gather(*(work() for _ in range(CALLERS)))
    return done / (time.perf_counter() - began)


async def flood(socket: str, count: str) -> None:
    """So many Lists at once on eight connections: the seconds until all are answered."""
    channels = [unix_channel(socket) for _ in range(8)]
    for channel in channels:
        await channel.channel_ready()
    print("ready", flush=True)
    began = time.perf_counter()
    methods: list[Any] = [channel.unary_unary(LIST.path) for channel in channels]
    await asyncio.gather(*(methods[at % len(methods)](b"") for at in range(int(count))))
    print(json.dumps(time.perf_counter() - began), flush=True)
    for channel in channels:
        await channel.close()


ROLES: dict[str, Callable[..., Coroutine[Any, Any, None]]] = {
    "watch": watch,
    "crowd": crowd,
    "bare": bare,
    "lister": lister,
    "flood": flood,
}

if __name__ == "__main__":
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    uvloop.run(ROLES[sys.argv[1]](*sys.argv[2:]))
