"""The store's second door under bad clients: garbage, strange methods, readers that do not read, crashes."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from protocols.etcd.client import EtcdClient
from protocols.etcd.errors import Unavailable
from protocols.etcd.options import EtcdOptions
from protocols.etcd.transport.frames import ERROR, GREETING, HEAD, NUMBERS, OK, pack
from protocols.wire import etcd_pb2 as pb
from tests.support.store_lab import Api, Lab, lab, listened_at, play, until


def raw(path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(60)
    try:
        made.connect(str(path))
    except OSError:
        made.close()
        raise
    return made


def receive(sock: socket.socket) -> tuple[int, int, bytes]:
    size, call, kind = HEAD.unpack(exactly(sock, HEAD.size))
    return call, kind, exactly(sock, size)


def exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (more := sock.recv(size - len(data))):
        data += more
    return data


def resident_mb(made: Lab) -> int:
    status = Path(f"/proc/{made.pid('store')}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) // 1024


def with_door(story: Callable[[Lab, Path], None]) -> None:
    with lab("store") as made:
        door = made.root / "run" / "store.door"
        until("the door is open", lambda: listened_at(door))
        assert door.stat().st_mode & 0o777 == 0o600
        story(made, door)
        assert play(made.door, lambda api: api.put(pb.PutRequest(key=b"still"))).header.revision > 1


@pytest.mark.parametrize(
    "junk", [b"GET / HTTP/1.1\r\n\r\n", GREETING + b"\xff" * 20, bytes(100)], ids=["http", "size", "zeros"]
)
def test_private_endpoint_garbage_ends_its_connection_only(junk: bytes) -> None:
    def story(made: Lab, door: Path) -> None:
        with raw(door) as sock:
            sock.sendall(junk)
            assert sock.recv(100) == b""

    with_door(story)


def test_private_endpoint_unknown_method_is_answered() -> None:
    def story(made: Lab, door: Path) -> None:
        with raw(door) as sock:
            sock.sendall(GREETING + pack(5, 200, b"") + pack(6, NUMBERS["KV/Put"], b"\xff\xff"))
            told = dict([receive(sock)[::2], receive(sock)[::2]])
            assert told[5] == b"UNIMPLEMENTED\0nodeplane's store has no method number 200"
            assert told[6].startswith(b"INVALID_ARGUMENT\0etcdserver: this is not a PutRequest")

    with_door(story)


def test_private_endpoint_unread_answers_pause_reading() -> None:
    """And costs nobody else anything."""

    def story(made: Lab, door: Path) -> None:
        play(made.door, lambda api: api.put(pb.PutRequest(key=b"big", value=bytes(1_000_000))))
        ask = pack(9, NUMBERS["KV/Range"], pb.RangeRequest(key=b"big").SerializeToString())
        with raw(door) as sock:
            sock.settimeout(0.5)
            sock.send(GREETING)
            with pytest.raises(TimeoutError):
                sock.sendall(ask * 60_000)
            assert resident_mb(made) < 300
            play(made.door, lambda api: api.range(pb.RangeRequest(key=b"big")))
            sock.settimeout(60)
            assert receive(sock)[:2] == (9, OK)

    with_door(story)


async def test_private_endpoint_store_killed_fails_open_calls() -> None:
    with lab("store") as made:
        client = EtcdClient(EtcdOptions(endpoints=(made.door,), timeout=30.0))
        await client.start()
        await client.put(b"a", b"1")
        made.signal("store", 19)  # SIGSTOP: it takes the call and does not answer
        hanging = asyncio.create_task(client.put(b"a", b"2"))
        await asyncio.sleep(0.1)
        await asyncio.to_thread(made.kill, "store")
        with pytest.raises(Unavailable, match="the connection to the store broke"):
            await hanging
        waiting = asyncio.create_task(client.put(b"a", b"3"))
        await asyncio.sleep(0.2)
        made.start("store")
        assert await waiting > 1
        made.signal("store", 19)
        with pytest.raises(Unavailable, match="did not answer in time"):
            await client.put(b"a", b"4", timeout=0.2)
        made.signal("store", 18)
        await client.close()


def test_private_endpoint_paused_watch_gets_everything() -> None:
    async def story(api: Api) -> None:
        stream = api.watch()
        await stream.write(pb.WatchRequest(create_request=pb.WatchCreateRequest(key=b"w")))
        assert (await stream.read()).created
        for number in range(300):
            await api.put(pb.PutRequest(key=b"w", value=b"%d" % number + bytes(100_000)))
        heard: list[int] = []
        while len(heard) < 300:
            heard.extend(int(event.kv.value.rstrip(b"\0")) for event in (await stream.read()).events)
        assert heard == list(range(300))
        stream.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stream.read()

    def both(made: Lab, door: Path) -> None:
        work: Callable[[Api], Awaitable[None]] = story
        play(made.door, work)

    with_door(both)


def test_private_endpoint_error_frame_has_code() -> None:
    def story(made: Lab, door: Path) -> None:
        with raw(door) as sock:
            sock.sendall(GREETING + pack(1, NUMBERS["KV/Put"], b""))
            assert receive(sock) == (1, ERROR, b"INVALID_ARGUMENT\0etcdserver: key is not provided")

    with_door(story)
