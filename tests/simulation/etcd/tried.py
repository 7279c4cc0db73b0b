"""A client of the model etcd and what it is told, each printed: what `tests/simulation/test_etcd.py` reads."""

import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from protocols.errors import NodeplaneError
from protocols.etcd.client import EtcdClient
from protocols.etcd.options import EtcdOptions
from tests.simulation.etcd.cluster import ENDPOINTS, Cluster
from tests.simulation.world.install import install
from tests.simulation.world.process import Process
from tests.simulation.world.world import World

Work = Callable[[EtcdClient], Awaitable[Any]]


class Tried:
    """A cluster, and a client that the world runs."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed, Path(tempfile.mkdtemp(prefix="etcd-", dir="/dev/shm")))
        self.cluster = Cluster(self.world, lambda commit: None)
        install(self.world)
        self.cluster.begin()
        self.found: Any = None

    def ask(self, work: Work, seconds: float = 20.0) -> Any:
        """Run a coroutine function of a client, and return what it returns or raises."""

        async def main(process: Process) -> None:
            client = EtcdClient(EtcdOptions(endpoints=ENDPOINTS))
            await client.start()
            try:
                self.found = await work(client)
            except NodeplaneError as error:
                self.found = type(error).__name__
            await client.close()

        self.found = "no answer"
        self.world.spawn("client", main)
        self.world.run(seconds)
        return self.found


async def _versions(client: EtcdClient) -> int:
    return len(await client.statuses())


async def create(client: EtcdClient) -> Any:
    return (await client.create_if_absent(b"/registry/a", b"1")).ok


async def delete(client: EtcdClient) -> Any:
    held, _ = await client.get(b"/registry/a")
    return held is not None and (await client.delete_if_revision(held.key, held.mod_revision)).ok


async def watch_all(client: EtcdClient) -> list[int]:
    """Watch from the first revision on, up to the current one."""
    seen: list[int] = []
    async with client.watch(b"/registry/", start_revision=1) as watch:
        async for batch in watch:
            seen += [event.kv.mod_revision for event in batch.events]
            if batch.revision >= watch.revision:
                break
    return seen


def show(tried: Tried) -> dict[str, Any]:
    """Try everything and return the outcomes by name."""
    cluster, world, seen = tried.cluster, tried.world, dict[str, Any]()
    seen["statuses"] = tried.ask(_versions)
    seen["created"] = tried.ask(create)
    seen["created again"] = tried.ask(create)
    seen["watched"] = tried.ask(watch_all)
    for member in cluster.members:
        member.silent_until = world.now + 30
    seen["silence"] = tried.ask(lambda client: client.get(b"/registry/a"))
    world.run(15)
    cluster.lose_leader(2.0)
    seen["leader lost"] = tried.ask(delete)
    cluster.state.full = True
    seen["no space"] = tried.ask(create)
    cluster.state.full = False
    seen["space again"] = tried.ask(create)
    cluster.members[0].go_away(5.0)
    cluster.members[1].go_away(5.0)
    seen["one member left"] = tried.ask(delete)
    cluster.compact(cluster.state.revision)
    seen["compacted"] = tried.ask(watch_all)
    return seen


if __name__ == "__main__":
    tried = Tried(int(sys.argv[1]))
    for name, text in show(tried).items():
        print(f"{name}: {text}")
    print(f"trace: {tried.world.trace.digest()}")
