"""The bus between real processes that are killed, stopped, slow, or talk nonsense."""

import asyncio
import fcntl
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import zmq

from protocols.bus import Bus, BusOptions, NameTaken, Op, Replica, ResourceExhausted, StateSource, Unavailable
from protocols.bus import frames as wire
from protocols.bus.types import Call
from tests.support.bus_worker import Number, Picture, options
from tests.support.waiting import until_async, until_true


class Workers:
    """Starts worker processes and ends them all."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, owner: str = "") -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.support.bus_worker", name, str(self.run_dir)]
        process = subprocess.Popen(command + ([owner] if owner else []), stderr=subprocess.PIPE)
        self._processes.append(process)
        return process

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
            if process.stderr:
                process.stderr.close()


@pytest.fixture
def workers() -> Iterator[Workers]:
    """A run directory for workers that run as processes."""
    root = Path(tempfile.mkdtemp(prefix="np", dir="/tmp"))
    made = Workers(root / "run")
    yield made
    made.end()
    shutil.rmtree(root)


@asynccontextmanager
async def bus_of(name: str, run_dir: Path) -> Any:
    bus = Bus(options(name, run_dir))
    await bus.start()
    try:
        yield bus
    finally:
        await bus.close()


async def put(bus: Bus, owner: str, count: int) -> int:
    return (await bus.call(owner, "put", Number(count), Number, timeout=40, idempotent=True)).value


async def picture_of(bus: Bus, wanted: Callable[[Picture], bool]) -> Picture:
    async def picture() -> Picture:
        return await bus.call("slow", "picture", Number(), Picture, timeout=40)

    seen: Picture = await until_async("the follower's picture", picture, good=wanted)
    return seen


def all_of(replica: Replica[Number], count: int, value: int) -> bool:
    return len(replica.items) == count and {number.value for number in replica.items.values()} == {value}


async def test_follower_owner_killed_converges(workers: Workers) -> None:
    async with bus_of("", workers.run_dir) as bus:
        replica: Replica[Number] = Replica()
        following = bus.follow(owner="owner", stream="state", sink=replica, type=Number)
        for count in (30, 20, 3000):
            process = workers.start("owner")
            pid = await put(bus, "owner", count)
            assert pid == process.pid
            await until_true(lambda: following.synced and all_of(replica, count, pid))  # noqa: B023 # used at once
            process.kill()
            process.wait()
        await until_true(lambda: not following.synced)


async def test_owner_slow_follower_costs_little(workers: Workers) -> None:
    async with bus_of("owner", workers.run_dir) as bus:
        items: dict[str, Number] = {}
        stream = bus.own("state", StateSource(items))
        process = workers.start("slow", "owner")
        await picture_of(bus, lambda picture: picture.synced)
        process.send_signal(signal.SIGSTOP)
        before = psutil.Process().memory_info().rss
        for number in range(200_000):
            items[str(number % 500)] = Number(number)
            stream.publish(Op.UPSERT, str(number % 500), items[str(number % 500)])
            if number % 1000 == 0:
                await asyncio.sleep(0)
        grown = psutil.Process().memory_info().rss - before
        process.send_signal(signal.SIGCONT)
        truth = {key: number.value for key, number in items.items()}
        picture = await picture_of(bus, lambda picture: picture.items == truth)
        assert picture.syncs > 1
        assert grown < 32 << 20


async def test_bus_second_holder_of_name_is_refused(workers: Workers) -> None:
    async with bus_of("", workers.run_dir) as bus:
        process = workers.start("owner")
        await put(bus, "owner", 1)
        second = workers.start("owner")
        _, text = await asyncio.to_thread(second.communicate)
        assert second.returncode == 1
        assert f"owner is running already as pid {process.pid}" in text.decode()
        with pytest.raises(NameTaken):
            await Bus(options("owner", workers.run_dir)).start()
        assert await put(bus, "owner", 1) == process.pid


async def test_bus_name_checked_does_not_block_owner(workers: Workers) -> None:
    """The supervisor sees whether a name is held by holding it for a moment."""
    workers.run_dir.mkdir(mode=0o700, parents=True)
    look = os.open(workers.run_dir / "owner.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(look, fcntl.LOCK_SH)
    asyncio.get_running_loop().call_later(0.1, os.close, look)
    async with bus_of("owner", workers.run_dir) as bus:
        assert bus.epoch


async def test_endpoints_owner_ends_are_removed(workers: Workers) -> None:
    async with bus_of("owner", workers.run_dir):
        assert stat.S_IMODE(os.stat(workers.run_dir).st_mode) == 0o700
        for file in ("owner.pub", "owner.rpc"):
            assert stat.S_IMODE(os.stat(workers.run_dir / file).st_mode) == 0o600
    assert os.listdir(workers.run_dir) == ["owner.lock"]


async def test_call_callee_dies_fails_or_is_repeated(workers: Workers) -> None:
    async with bus_of("", workers.run_dir) as bus:
        process = workers.start("callee")
        await put(bus, "callee", 1)
        once = asyncio.ensure_future(bus.call("callee", "hang", Number(60), Number, timeout=60))
        again = asyncio.ensure_future(bus.call("callee", "hang", Number(1), Number, timeout=60, idempotent=True))
        await bus.call("callee", "await_calls", Number(2), Number, timeout=40)
        began = time.monotonic()
        process.kill()
        with pytest.raises(Unavailable, match="died during hang"):
            await once
        assert time.monotonic() - began < 20, "not at the deadline"
        process.wait()
        successor = workers.start("callee")
        assert (await again).value == successor.pid


async def test_callee_too_many_handlers_refuses(workers: Workers) -> None:
    server = Bus(BusOptions(name="small", run_dir=workers.run_dir, handlers=1))
    await server.start()
    release = asyncio.Event()

    async def wait(request: Number, call: Call) -> Number:
        await release.wait()
        return request

    server.serve("wait", Number, wait)
    async with bus_of("", workers.run_dir) as bus:
        first = asyncio.ensure_future(bus.call("small", "wait", Number(1), Number))
        await asyncio.sleep(0)
        with pytest.raises(ResourceExhausted):
            await bus.call("small", "wait", Number(2), Number)
        release.set()
        assert (await first).value == 1
    await server.close()


async def test_callee_repeated_request_has_one_effect(workers: Workers) -> None:
    async with bus_of("owner", workers.run_dir) as bus:
        calls = 0

        async def act(request: Number, call: Call) -> Number:
            nonlocal calls
            calls += 1
            return request

        bus.serve("act", Number, act)
        request = wire.encode(wire.RequestFrame(1, "me:1", "act", 5000, True, wire.encode(Number(3))))
        nonsense = [[b""], [b"\xff" * 40], [request[:-1]], [b"a", b"b"], [b"\x91\x63"], [b"\x81\x01\x02"]]
        replies = await asyncio.to_thread(_talk, workers.run_dir / "owner.rpc", nonsense, request)
        reply = wire.ReplyFrame(1, "me:1", bus.epoch, wire.encode(Number(3)))
        assert [wire.decode_answer(data) for data in replies] == [reply, reply]
        assert calls == 1
        assert bus.counters.garbage == len(nonsense)


def _talk(path: Path, nonsense: list[list[bytes]], request: bytes) -> list[bytes]:
    """A peer that knows nothing of the bus, and then asks the same twice."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.linger = 0
        socket.rcvtimeo = 30_000
        socket.connect(f"ipc://{path}")
        for message in nonsense:
            socket.send_multipart(message)
        replies = []
        for _ in range(2):
            socket.send(request)
            replies.append(socket.recv())
        return replies


async def test_follower_nonsense_is_dropped(workers: Workers) -> None:
    workers.run_dir.mkdir(mode=0o700, parents=True)
    async with bus_of("", workers.run_dir) as bus:
        following = bus.follow(owner="fake", stream="s", sink=Replica(), type=Number)
        with zmq.Context() as context, context.socket(zmq.PUB) as publisher:
            publisher.linger = 0
            publisher.bind(f"ipc://{workers.run_dir}/fake.pub")
            while bus.counters.garbage < 5:
                for message in (b"s\0", b"s\0\xff\xff", b"s\0\x91\x01", b"\0\x93", b"s\0" + bytes(300)):
                    publisher.send(message)
                await asyncio.sleep(0.01)
        assert not following.synced


async def test_follower_stream_owned_again_has_new_state(workers: Workers) -> None:
    """In one life of its owner, so in one epoch: old positions must not be taken for new ones."""
    async with bus_of("owner", workers.run_dir) as owner, bus_of("follower", workers.run_dir) as follower:
        first, second = StateSource({"a": Number(1)}), StateSource({"b": Number(2)})
        picture: Replica[Number] = Replica()
        stream = owner.own("s", first)
        following = follower.follow(owner="owner", stream="s", sink=picture, type=Number)
        await following.wait_synced(60)
        for number in range(3):
            stream.publish(Op.UPSERT, "a", Number(number))
        await until_true(lambda: picture.items == {"a": Number(2)})
        owner.disown("s")
        owner.own("s", second)
        await until_true(lambda: picture.items == {"b": Number(2)})
        follower.unfollow(following)
        again: Replica[Number] = Replica()
        follower.follow(owner="owner", stream="s", sink=again, type=Number)
        await until_true(lambda: again.items == {"b": Number(2)})


async def test_streams_of_passing_names_leave_nothing_behind(workers: Workers) -> None:
    """Each custom resource that was defined and removed left its name for the life of its owner."""
    async with bus_of("owner", workers.run_dir) as owner:
        for number in range(50):
            owner.own(f"s{number}", StateSource({}))
            owner.disown(f"s{number}")
        assert not [name for name, value in vars(owner._host).items() if isinstance(value, dict | set) and value]
