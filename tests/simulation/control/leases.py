"""A client that writes keys with leases: a key is there while its lease lasts, and gone soon after.

Between them it creates several keys in one transaction: all are there, or none.
"""

import asyncio
from collections.abc import Iterator

from protocols.errors import NodeplaneError
from protocols.etcd.client import EtcdClient
from protocols.etcd.options import EtcdOptions
from tests.simulation.control.history import History
from tests.simulation.model import Broken, Main
from tests.simulation.world.process import Process

RATE, LEASE_SHARE = 2.5, 0.2
"""Transactions a second, and the share of them that a lease begins with."""
TTL_S = 3, 6
MOST_TOGETHER = 3
"""Keys of one transaction."""
PREFIX = b"/simulation/leased/"
"""No resource of the API: nobody else writes or watches it."""
SPARE_S = 0.001


class LeaseHolder:
    """Grants a lease, puts a key with it, and lets it expire: nobody renews. Creates keys together."""

    def __init__(self, name: str, options: EtcdOptions, history: History) -> None:
        self.name, self._options, self._history = name, options, history
        self.granted: list[tuple[bytes, float, int]] = []
        """Key, when its lease began at the earliest, and how long it lasts at least, both in the world's seconds."""
        self.together: list[list[bytes]] = []
        """Keys of one transaction."""

    def main(self) -> Main:
        async def main(process: Process) -> None:
            client = EtcdClient(self._options)
            await client.start()
            chance = process.world.random(f"load/{self.name}")
            while True:
                await asyncio.sleep(chance.expovariate(RATE))
                key = PREFIX + f"{self.name}-{len(self.granted)}-{process.pid}".encode()
                began = process.world.elapsed
                try:
                    if chance.random() >= LEASE_SHARE:
                        await self._create_together(client, chance.randint(2, MOST_TOGETHER))
                        continue
                    lease = await client.lease_grant(chance.choice(TTL_S))
                    self.granted.append((key, began, lease.ttl))
                    await client.create_if_absent(key, b"leased", lease.id)
                except NodeplaneError:
                    continue

        return main

    async def _create_together(self, client: EtcdClient, count: int) -> None:
        keys = [PREFIX + f"{self.name}/{len(self.together)}/{number}".encode() for number in range(count)]
        self.together.append(keys)
        await client.create_all_if_absent([(key, b"together") for key in keys])

    def check(self) -> Iterator[Broken]:
        """Yield lives that are too short or without end; a restart of the store gives a lease its whole time again."""
        history = self._history
        for keys in self.together:
            if len({history.latest.get(key, (0, None))[0] for key in keys}) > 1:
                yield Broken("a transaction is whole", f"{keys[0].decode()} and others")
        for key, began, ttl in self.granted:
            if began < history.restored_at or key not in history.latest:
                continue
            at, is_there = history.changed[key], history.latest[key][1] is not None
            if not is_there and at < began + ttl - SPARE_S:
                yield Broken("a lease lasts", f"{key.decode()} is gone after {at - began:.1f} of {ttl} s", at)
            elif is_there and history.leases_ended(ttl):
                yield Broken("a lease ends", f"{key.decode()} is still there, its lease lasted {ttl} s")
