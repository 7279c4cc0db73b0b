"""Bus against a bare pyzmq loop written the same way, two processes each.

The bare loop watches the FD, drains the socket, and decodes header and body into the same structs: what anybody has to
do who wants the message. It does not number, remember, compare, hand on or recover anything.
"""

import asyncio
import contextlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import uvloop
import zmq

from protocols.bus import Bus, BusOptions, Call, EdgeSource, Event, Op, StreamSink
from protocols.bus.frames import decode_published, encode, topic_of
from tests.bench.row import Row

EVENTS = 100_000
WINDOW = 500
"""Events the owner publishes for each word from the follower: the rate is what the follower bears, without loss."""
AHEAD = 3
TRIPS = 2_000
ROUNDS = 5
SHARE = 0.6
STREAM = "bench"
TOPIC = topic_of(STREAM)


class Sample(msgspec.Struct, frozen=True):
    """A body of common size, about 200 bytes."""

    uid: str
    number: int
    text: str = "x" * 150


class Empty(msgspec.Struct, frozen=True):
    pass


decode_sample = msgspec.msgpack.Decoder(Sample).decode


# ours


class Counting(StreamSink[Sample]):
    """Counts events until the last; fails on a snapshot in between, since that would be a loss."""

    def __init__(self, more: Callable[[], None]) -> None:
        self._more = more
        self.count = 0
        self.began = 0.0
        self.done: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def on_snapshot(self, items: list[tuple[str, Sample]], mark: int) -> None:
        if self.count:
            self.done.set_exception(RuntimeError(f"events were lost after {self.count}"))

    def on_event(self, event: Event[Sample]) -> None:
        if not self.count:
            self.began = time.perf_counter()
        self.count += 1
        if self.count % WINDOW == 0:
            self._more()
        if self.count == EVENTS:
            self.done.set_result(EVENTS / (time.perf_counter() - self.began))


async def our_owner(run_dir: Path) -> None:
    bus = Bus(BusOptions(name="owner", run_dir=run_dir))
    await bus.start()
    stream = bus.own(STREAM, EdgeSource(), ring=EVENTS)

    async def go(request: Empty, call: Call) -> Empty:
        for number in range(WINDOW):
            stream.publish(Op.APPEND, "key", Sample("uid", number))
        return request

    async def echo(request: Sample, call: Call) -> Sample:
        return request

    bus.serve("go", Empty, go)
    bus.serve("echo", Sample, echo)
    await asyncio.Event().wait()


async def our_events(run_dir: Path) -> float:
    bus = Bus(BusOptions(name="", run_dir=run_dir))
    await bus.start()
    sink = Counting(lambda: bus.cast("owner", "go", Empty()))
    await bus.follow(owner="owner", stream=STREAM, sink=sink, type=Sample).wait_synced(10)
    for _ in range(AHEAD):
        bus.cast("owner", "go", Empty())
    rate = await asyncio.wait_for(sink.done, 60)
    await bus.close()
    return rate


async def our_trips(run_dir: Path) -> float:
    bus = Bus(BusOptions(name="", run_dir=run_dir))
    await bus.start()
    times = []
    for number in range(TRIPS):
        began = time.perf_counter()
        await bus.call("owner", "echo", Sample("uid", number), Sample)
        times.append(time.perf_counter() - began)
    await bus.close()
    return median(times) * 1e6


# bare


class Bare:
    """A socket watched by its FD and drained, and nothing else."""

    def __init__(self, socket: "zmq.Socket[bytes]", take: Callable[[], None]) -> None:
        self._socket, self._take = socket, take
        asyncio.get_running_loop().add_reader(int(socket.getsockopt(zmq.FD)), self.drain)

    def drain(self) -> None:
        with contextlib.suppress(zmq.Again):
            while True:
                self._take()


async def bare_owner(run_dir: Path) -> None:
    context = zmq.Context()
    publisher, router = context.socket(zmq.PUB), context.socket(zmq.ROUTER)
    publisher.setsockopt(zmq.SNDHWM, 0)
    publisher.bind(f"ipc://{run_dir}/bare.pub")
    router.bind(f"ipc://{run_dir}/bare.rpc")

    def feed(key: str, count: int) -> None:
        for number in range(count):
            body = encode(Sample("uid", number))
            publisher.send(TOPIC + encode(Event(Op.APPEND, key, body, number, 0, 1)), zmq.NOBLOCK)

    def take() -> None:
        peer, data = router.recv_multipart(zmq.NOBLOCK)
        frame = decode_published(data)
        assert isinstance(frame, Event)
        if frame.key == "go":
            feed("key", WINDOW)
        elif frame.key == "hello":
            feed("hello", 1)
        router.send_multipart([peer, data], zmq.NOBLOCK)
        asyncio.get_running_loop().call_soon(bare.drain)

    bare = Bare(router, take)
    await asyncio.Event().wait()


def ask(key: str, number: int) -> bytes:
    return encode(Event(Op.APPEND, key, encode(Sample("uid", number)), number, 0, 1))


async def bare_events(run_dir: Path) -> float:
    context = zmq.Context()
    subscriber, dealer = context.socket(zmq.SUB), context.socket(zmq.DEALER)
    subscriber.setsockopt(zmq.RCVHWM, 0)
    subscriber.connect(f"ipc://{run_dir}/bare.pub")
    subscriber.subscribe(TOPIC)
    dealer.connect(f"ipc://{run_dir}/bare.rpc")
    done: asyncio.Future[float] = asyncio.get_running_loop().create_future()
    count, began = 0, 0.0

    def take() -> None:
        nonlocal count, began
        frame: Any = decode_published(subscriber.recv(zmq.NOBLOCK)[len(TOPIC) :])  # nothing but events is sent here
        decode_sample(frame.value)
        if frame.key == "hello":
            hello.set()
            return
        began = began or time.perf_counter()
        count += 1
        if count % WINDOW == 0:
            dealer.send(ask("go", 0))
        if count == EVENTS:
            done.set_result(EVENTS / (time.perf_counter() - began))

    hello = asyncio.Event()
    Bare(subscriber, take)
    while not hello.is_set():  # the subscription works once something was heard
        dealer.send(ask("hello", 0))
        await asyncio.sleep(0.05)
    for _ in range(AHEAD):
        dealer.send(ask("go", 0))
    rate = await asyncio.wait_for(done, 60)
    _close(context, subscriber, dealer)
    return rate


async def bare_trips(run_dir: Path) -> float:
    context = zmq.Context()
    dealer = context.socket(zmq.DEALER)
    dealer.connect(f"ipc://{run_dir}/bare.rpc")
    loop = asyncio.get_running_loop()
    waiting: asyncio.Future[None] = loop.create_future()

    def take() -> None:
        decode_published(dealer.recv(zmq.NOBLOCK))
        waiting.set_result(None)

    bare = Bare(dealer, take)
    times = []
    for number in range(TRIPS):
        waiting = loop.create_future()
        began = time.perf_counter()
        dealer.send(ask("echo", number))
        loop.call_soon(bare.drain)
        await waiting
        times.append(time.perf_counter() - began)
    _close(context, dealer)
    return median(times) * 1e6


def _close(context: "zmq.Context[zmq.Socket[bytes]]", *sockets: "zmq.Socket[bytes]") -> None:
    for socket in sockets:
        asyncio.get_running_loop().remove_reader(int(socket.getsockopt(zmq.FD)))
        socket.close(0)
    context.term()


# the table


def against(owner: str, measure: Callable[[Path], Coroutine[Any, Any, float]]) -> float:
    """One run: a fresh owner process, measured from this one."""
    run_dir = Path(tempfile.mkdtemp(prefix="np", dir="/tmp"))
    process = subprocess.Popen([sys.executable, "-m", "tests.bench.bus_bench", owner, str(run_dir)])
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(measure(run_dir))
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(run_dir)


def run() -> list[Row]:
    """Medians of rounds that alternate between ours and bare, so that both see the same machine."""
    rounds = [
        (
            against("our", our_events),
            against("bare", bare_events),
            against("our", our_trips),
            against("bare", bare_trips),
        )
        for _ in range(ROUNDS)
    ]
    ours, bare, trips, floors = zip(*rounds, strict=True)
    return [_rate(median(ours), median(bare)), _trip(median(trips), median(floors))]


def _rate(ours: float, bare: float) -> Row:
    return Row("bus: events into one follower", ours, "1/s", bare, f">= {SHARE:.0%} of bare", ours >= SHARE * bare)


def _trip(ours: float, bare: float) -> Row:
    return Row("bus: rpc round trip", ours, "us", bare, f"<= bare/{SHARE}", ours <= bare / SHARE)


if __name__ == "__main__":
    uvloop.run({"our": our_owner, "bare": bare_owner}[sys.argv[1]](Path(sys.argv[2])))
