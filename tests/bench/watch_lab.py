"""Ground of the watch bench: a small control plane, its store written to directly, clients and the floor beside it."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from protocols.bus import BusError
from protocols.etcd.client import EtcdClient
from protocols.etcd.options import store_options
from tests.bench.watch_line import Options
from tests.support.apiserver_plane import REPOSITORY, Plane, running_plane
from tests.support.plane import until

AT_ONCE, TOGETHER = 32, 100
TOKEN = "lab-token"
HELD = 'nodeplane_replica_objects{group="",resource="pods"}'


class Peer:
    """A helper process that answers a line with a line."""

    def __init__(self, module: str, *arguments: str) -> None:
        command = [sys.executable, "-m", f"tests.bench.{module}", *arguments]
        self._process = subprocess.Popen(
            command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.first: Any = self.heard()

    @property
    def pid(self) -> int:
        return self._process.pid

    def tell(self, word: str = "") -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()

    def ask(self, word: str) -> Any:
        self.tell(word)
        return self.heard()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def heard(self) -> Any:
        """Return its next answer."""
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


@contextmanager
def peer(module: str, *arguments: str) -> Iterator[Peer]:
    started = Peer(module, *arguments)
    try:
        yield started
    finally:
        started.close()


def watches(options: Options) -> AbstractContextManager[Peer]:
    return peer("watch_client", msgspec.json.encode(options).decode())


def floor_of(plane: Plane, body: bytes, *options: str) -> Any:
    file = plane.root / "body"
    file.write_bytes(body)
    return peer("watch_floor", str(plane.settings.layout.pki), str(file), *options)


@contextmanager
def lab_plane(plain: bool = False, meter: bool = False) -> Iterator[Plane]:
    """A plane whose API server is the lab's; `meter`: of its loop's turns, which costs CPU."""
    with running_plane() as plane:
        give_token(plane)
        plane.kill("apiserver-0")
        arguments = ["--settings", str(plane.settings.layout.settings), "--instance", "apiserver-0"]
        command = [sys.executable, "-m", "tests.bench.lab_apiserver", *arguments]
        environment = {**os.environ, "LAB_PLAIN": "1" if plain else "", "LAB_METER": "1" if meter else ""}
        with (plane.root / "apiserver-0.log").open("ab") as log:
            plane.processes["apiserver-0"] = subprocess.Popen(command, cwd=REPOSITORY, stderr=log, env=environment)
        until_applied(plane, 0)
        yield plane


def give_token(plane: Plane) -> None:
    """TOKEN is the admin's from now on."""
    tokens = plane.settings.layout.pki / "tokens.csv"
    tokens.write_text(f'{TOKEN},admin,1,"system:masters"\n')
    tokens.chmod(0o600)


def plain_plane() -> AbstractContextManager[Plane]:
    """Without TLS; TOKEN is the admin's."""
    return lab_plane(plain=True)


def until_applied(plane: Plane, objects: int, name: str = "apiserver-0") -> None:
    """Until every replica of the process is synced, and that of the pods holds so many objects."""

    def there() -> bool:
        try:
            lines = asyncio.run(plane.metrics(name)).splitlines()
        except BusError:
            return False
        synced = [line.endswith(" 1") for line in lines if line.startswith("nodeplane_replica_synced{")]
        held = [float(line.split()[-1]) for line in lines if line.startswith(HELD)]
        return bool(synced) and all(synced) and sum(held) >= objects

    until(f"{objects} objects in {name}", there, 60.0, every=0.1)


def received(client: Peer, events: int, timeout: float = 120.0) -> dict[str, Any]:
    """What the client has once it has `events`."""

    def stats() -> dict[str, Any]:
        found: dict[str, Any] = client.ask("stats")
        return found

    return until(f"{events} events", stats, timeout, every=0.02, good=lambda found: found["events"] >= events)


def settled(client: Peer, watches: int, events: int) -> dict[str, Any]:
    """The client's stats once all its watches are open again, have at least so many events, and nothing more comes."""
    before = client.ask("stats")
    time.sleep(0.5)
    stats: dict[str, Any] = client.ask("stats")
    back = stats["opened"] == watches + stats["lost"]
    return stats if back and stats["events"] == before["events"] >= events else {}


def cpu_seconds(pid: int) -> float:
    """Of all threads, by the scheduler's own clock."""
    spent = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        spent += int((task / "schedstat").read_text().split()[0])
    return spent / 1e9


def resident_kb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def configmap(name: str, namespace: str = "default", size: int = 1000, **metadata: str) -> bytes:
    """As the store keeps it; `size` bytes in all, nearly."""
    body: dict[str, Any] = {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", **metadata},
    }
    body["data"] = {"fill": "x" * (size - len(json.dumps(body)) - 20)}
    return msgspec.json.encode(body)


def put_all(plane: Plane, pairs: list[tuple[str, bytes]], rate: float = 0.0) -> int:
    """Write to the store, so that the API server's share is the watches alone; the last revision."""
    return asyncio.run(_put_all(plane, pairs, rate))


def create_all(plane: Plane, pairs: list[tuple[str, bytes]]) -> None:
    """Many new objects, TOGETHER in each transaction."""
    asyncio.run(_create_all(plane, [(key.encode(), value) for key, value in pairs]))


async def _create_all(plane: Plane, pairs: list[tuple[bytes, bytes]]) -> None:
    client = EtcdClient(store_options(plane.settings, plane.settings.layout)[0])
    await client.start()
    try:
        for first in range(0, len(pairs), TOGETHER):
            assert await client.create_all_if_absent(pairs[first : first + TOGETHER])
    finally:
        await client.close()


async def _put_all(plane: Plane, pairs: list[tuple[str, bytes]], rate: float) -> int:
    client = EtcdClient(store_options(plane.settings, plane.settings.layout)[0])
    await client.start()
    gate, began = asyncio.Semaphore(AT_ONCE), time.monotonic()

    async def put(number: int, key: str, value: bytes) -> int:
        if rate:
            await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
        async with gate:
            return await client.put(key.encode(), value)

    try:
        revisions = await asyncio.gather(*(put(n, key, value) for n, (key, value) in enumerate(pairs)))
    finally:
        await client.close()
    return max(revisions)
