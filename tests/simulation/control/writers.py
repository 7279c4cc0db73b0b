"""Writers: clients of the store that create, change, read and delete a few keys, and record every call."""

import asyncio
import json
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from protocols.errors import NodeplaneError
from protocols.etcd.client import EtcdClient
from protocols.etcd.options import EtcdOptions
from protocols.etcd.types import KeyValue, Written
from protocols.wire import etcd_pb2 as pb
from tests.simulation.control.history import History
from tests.simulation.model import Main
from tests.simulation.world.process import Process
from tests.simulation.world.world import START
from tests.support.linear import Operation

if TYPE_CHECKING:
    import random

KEYS = 8
RARE, RARE_KEYS = b"/registry/limitranges/default/r%d", 1_000
LARGE = 20_000
"""Bytes of a large value."""
READ_SHARE = 0.25
"""Share of attempts that read first, though the key's state after the last answer is known."""
READ_S = 1.0
SERVED_S = 10.0
"""A client that asks each second has had an answer in this time once all is well."""


class Held(NamedTuple):
    value: bytes
    revision: int


class Pace(NamedTuple):
    """How a writer writes."""

    rate: float
    """1 / seconds between the end of an attempt and the next, on average."""
    several: float
    """Share of attempts that write several keys in one revision."""
    lull: float
    """Share of attempts after which seconds pass: what is lost last is missed by nobody until the next write."""
    rare: float = 0.0
    """Share of attempts at one of many keys of a collection that is quiet otherwise."""
    large_every: int = 0
    """How many values there are for each that fills pages: commits of unlike length; 0: none is large."""

    async def pause(self, chance: "random.Random") -> None:
        rest = self.lull and chance.random() < self.lull
        await asyncio.sleep(chance.uniform(1.0, 6.0) if rest else chance.expovariate(self.rate))


class Writer:
    """One client. Its calls are recorded with the world's time, whatever its own clock shows."""

    def __init__(self, name: str, options: EtcdOptions, prefix: bytes, history: History, pace: Pace) -> None:
        self.name, self._options, self._prefix, self._history = name, options, prefix, history
        self._pace = pace
        self._count = 0
        self._began = 0.0
        """The world's time of what the call under way knows of its key."""
        self._known: dict[bytes, tuple[Held | None, float]] = {}
        """Keys as the last answer had them, and its time; absent: an answer was lost."""
        self.quiet = False
        """It writes no more, and reads now and then."""
        self.answered_at = 0.0
        """The world's time of the last answer."""

    def main(self) -> Main:
        async def main(process: Process) -> None:
            client = EtcdClient(self._options)
            await client.start()
            chance = process.world.random(f"load/{self.name}")
            self._known.clear()
            while not self.quiet:
                if self._pace.several and chance.random() < self._pace.several:
                    await self._several(process, client, chance)
                else:
                    await self._once(process, client, chance)
                await self._pace.pause(chance)
            while True:
                await self._read(process, client, self._key(0))
                await asyncio.sleep(READ_S)

        return main

    async def _once(self, process: Process, client: EtcdClient, chance: "random.Random") -> None:
        key = self._key(chance.randrange(KEYS))
        if self._pace.rare and chance.random() < self._pace.rare:
            key = RARE % chance.randrange(RARE_KEYS)
        deletes = chance.random() < 0.2
        if (not self._knows(key) or chance.random() < READ_SHARE) and not await self._read(process, client, key):
            return
        (held, self._began), world = self._known.pop(key), process.world
        called, value = world.now, self._value(key)
        try:
            if held is None:
                done = await client.create_if_absent(key, value)
            elif deletes:
                done = await client.delete_if_revision(key, held.revision)
            else:
                done = await client.update_if_revision(key, value, held.revision)
        except NodeplaneError:
            self._history.unknown += 1
            self._lost(key, called, held, None if held and deletes else value)
            return
        self._answered(key, called, world.now, held, None if held and deletes else value, done)

    def _knows(self, key: bytes) -> bool:
        """Return True if the key's state is known, and of the history that the store has now."""
        return key in self._known and self._known[key][1] - START >= self._history.restored_at

    async def _read(self, process: Process, client: EtcdClient, key: bytes) -> bool:
        world = process.world
        called = self._began = world.now
        try:
            held, _ = await client.get(key)
        except NodeplaneError:
            return False
        self.answered_at = world.now
        self._record(key, Operation("get", called, world.now, seen=held.value if held else None))
        self._known[key] = _held(held), called
        return True

    async def _several(self, process: Process, client: EtcdClient, chance: "random.Random") -> None:
        """Write some keys in one revision, whatever they are, with one try."""
        numbers = chance.sample(range(KEYS), chance.randint(2, 4))
        keys = [self._key(number) for number in numbers]
        written = {key: None if chance.random() < 0.2 else self._value(key) for key in keys}
        self._history.transactions.append(written)
        called = self._began = process.world.now
        returned, revision = math.inf, 0
        try:
            revision = (await client.txn(_puts(written))).header.revision
            returned = process.world.now
        except NodeplaneError:
            self._history.unknown += 1
        for key, value in written.items():
            self._record(key, Operation("put", called, returned, value=value))
            self._known.pop(key, None)
            if revision:
                self._known[key] = None if value is None else Held(value, revision), called
            if revision and value is not None:
                self._history.acknowledge(key, called, revision, value)

    def _key(self, number: int) -> bytes:
        """Return a key; every other one is in a namespace of which nobody has a watch of its own."""
        return self._prefix + (b"other/c%d" if number % 2 else b"default/c%d") % number

    def _value(self, key: bytes) -> bytes:
        self._count += 1
        namespace, name = key.decode().split("/")[-2:]
        metadata: dict[str, Any] = {"name": name, "namespace": namespace, "uid": f"{self.name}-{self._count}"}
        if self._pace.large_every and self._count % self._pace.large_every == 0:
            metadata["annotations"] = {"large": "x" * LARGE}
        return json.dumps({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata}).encode()

    def _lost(self, key: bytes, called: float, held: Held | None, value: bytes | None) -> None:
        before = held.value if held else None
        self._record(key, Operation("cas", called, value=value, expected=before))

    def _answered(
        self, key: bytes, called: float, now: float, held: Held | None, value: bytes | None, done: Written
    ) -> None:
        before = held.value if held else None
        if done.ok and done.by_read and value is None:
            self._lost(key, called, held, None)  # it deleted the key, or somebody else did
            self._record(key, Operation("get", called, now))
            return
        if done.ok:
            self._record(key, Operation("cas", called, now, value=value, expected=before))
            self._known[key] = None if value is None else Held(value, done.revision), called
            if not done.by_read:
                self._history.acknowledge(key, called, done.revision, value)
            return
        self._known[key] = _held(done.current), called
        seen = done.current.value if done.current else None
        self._record(key, Operation("cas", called, now, value=value, expected=before, seen=seen, ok=False))

    def _record(self, key: bytes, operation: Operation) -> None:
        self._history.record(key, self._began, operation)


def _held(stored: KeyValue | None) -> Held | None:
    return Held(stored.value, stored.mod_revision) if stored else None


def _puts(written: dict[bytes, bytes | None]) -> pb.TxnRequest:
    request = pb.TxnRequest()
    for key, value in written.items():
        if value is None:
            request.success.add().request_delete_range.key = key
        else:
            put = request.success.add().request_put
            put.key, put.value = key, value
    return request
