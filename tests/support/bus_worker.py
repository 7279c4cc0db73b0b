"""A process on the bus for tests: owns a state stream, answers, follows: `NAME RUN_DIR [OWNER]`."""

import asyncio
import os
import sys
from pathlib import Path

import msgspec
import uvloop

from protocols.bus import Bus, BusOptions, Call, Op, Replica, StateSource


class Number(msgspec.Struct, frozen=True):
    value: int = 0


class Picture(msgspec.Struct, frozen=True):
    items: dict[str, int] = {}
    synced: bool = False
    syncs: int = 0


def options(name: str, run_dir: Path) -> BusOptions:
    return BusOptions(name=name, run_dir=run_dir, tick=0.2, idle_tick=0.2, stale_after=0.6)


class Worker:
    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.items: dict[str, Number] = {}
        self.calls = 0
        self.changed = asyncio.Condition()
        self.replica: Replica[Number] = Replica()

    def start(self, owner: str) -> None:
        self.state = self.bus.own("state", StateSource(self.items))
        for method in (self.put, self.hang, self.await_calls):
            self.bus.serve(method.__name__, Number, method)
        self.bus.serve("picture", Number, self.picture)
        if owner:
            self.following = self.bus.follow(owner=owner, stream="state", sink=self.replica, type=Number)

    async def put(self, request: Number, call: Call) -> Number:
        """Publish keys 0 ... value-1 with the pid as value, so that two lives differ."""
        for key in range(request.value):
            self.items[str(key)] = Number(os.getpid())
            self.state.publish(Op.UPSERT, str(key), self.items[str(key)])
        return Number(os.getpid())

    async def hang(self, request: Number, call: Call) -> Number:
        async with self.changed:
            self.calls += 1
            self.changed.notify_all()
        await asyncio.sleep(request.value)
        return Number(os.getpid())

    async def await_calls(self, request: Number, call: Call) -> Number:
        """Answers once that many calls to `hang` have begun."""
        async with self.changed:
            await self.changed.wait_for(lambda: self.calls >= request.value)
        return Number(self.calls)

    async def picture(self, request: Number, call: Call) -> Picture:
        items = {key: number.value for key, number in self.replica.items.items()}
        return Picture(items, self.following.synced, self.following.syncs)


async def main(name: str, run_dir: str, owner: str = "") -> None:
    bus = Bus(options(name, Path(run_dir)))
    await bus.start()
    Worker(bus).start(owner)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
