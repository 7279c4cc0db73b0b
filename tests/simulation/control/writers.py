"""Writers: clients of the store that create, change, read and delete a few keys, and record every call."""

import asyncio
import json
from typing import TYPE_CHECKING

from protocols.errors import NodeplaneError
from protocols.etcd import EtcdClient, EtcdOptions
from protocols.etcd.types import KeyValue, Written
from tests.simulation.control.history import History
from tests.simulation.model import Main
from tests.simulation.world.process import Process
from tests.support.linear import Operation

if TYPE_CHECKING:
    import random

KEYS = 8
RATE = 25.0
"""Attempts a second of one writer while all is well; each is a read and a write."""


class Writer:
    """One client. Its calls are recorded with the world's time, whatever its own clock shows."""

    def __init__(self, name: str, options: EtcdOptions, prefix: bytes, history: History) -> None:
        self.name, self._options, self._prefix, self._history = name, options, prefix, history
        self._count = 0
        self._began = 0.0

    def main(self) -> Main:
        async def main(process: Process) -> None:
            client = EtcdClient(self._options)
            await client.start()
            chance = process.world.random(f"load/{self.name}")
            while True:
                await self._once(process, client, chance)
                await _pause(chance)

        return main

    async def _once(self, process: Process, client: EtcdClient, chance: "random.Random") -> None:
        key = self._prefix + b"default/c%d" % chance.randrange(KEYS)
        deletes = chance.random() < 0.2
        world = process.world
        called = self._began = world.now
        try:
            held, _ = await client.get(key)
        except NodeplaneError:
            return
        self._record(key, Operation("get", called, world.now, seen=held.value if held else None))
        called, value = world.now, self._value(key)
        try:
            if held is None:
                done = await client.create_if_absent(key, value)
            elif deletes:
                done = await client.delete_if_revision(key, held.mod_revision)
            else:
                done = await client.update_if_revision(key, value, held.mod_revision)
        except NodeplaneError:
            self._history.unknown += 1
            self._lost(key, called, held, None if held and deletes else value)
            return
        self._answered(key, called, world.now, held, None if held and deletes else value, done)

    def _value(self, key: bytes) -> bytes:
        self._count += 1
        name = key.decode().rpartition("/")[2]
        metadata = {"name": name, "namespace": "default", "uid": f"{self.name}-{self._count}"}
        return json.dumps({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata}).encode()

    def _lost(self, key: bytes, called: float, held: KeyValue | None, value: bytes | None) -> None:
        before = held.value if held else None
        self._record(key, Operation("cas", called, value=value, expected=before))

    def _answered(
        self, key: bytes, called: float, now: float, held: KeyValue | None, value: bytes | None, done: Written
    ) -> None:
        before = held.value if held else None
        if done.ok:
            self._record(key, Operation("cas", called, now, value=value, expected=before))
            if not done.repeated:
                self._history.acknowledge(key, called, done.revision, value)
            return
        seen = done.current.value if done.current else None
        self._record(key, Operation("cas", called, now, value=value, expected=before, seen=seen, ok=False))

    def _record(self, key: bytes, operation: Operation) -> None:
        self._history.record(key, self._began, operation)


async def _pause(chance: "random.Random") -> None:

    await asyncio.sleep(chance.expovariate(RATE))
