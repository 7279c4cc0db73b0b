"""Any history of pods, failing drivers and killed managers: no driver keeps what nobody knows of, none loses what is
used."""

import asyncio
import errno
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from actors.devices.dra.claim_cache import ClaimCache
from actors.devices.dra.claim_checkpoint import ClaimWriter, ClaimWriterOptions, decode, encode
from actors.devices.dra.claim_preparer import ClaimPreparer, ClaimPreparerOptions
from actors.devices.dra.driver_instance import ClaimsOutcome, failed_outcome
from actors.devices.dra.errors import DriverFailed, PreparationAborted
from actors.devices.dra.metrics import DraMetrics
from protocols.errors import NodeplaneError
from protocols.lifecycle.devices.types import ClaimInfo, PreparedDevice
from tests.support.dra_lab import asks, claim

A, B = "a.example.com", "b.example.com"
CLAIMS = {"one": (A,), "both": (A, B), "other": (B,)}
PODS = {"p": ("one", "both"), "q": ("both", "other"), "r": ("one",)}
FAULTS = ("well", "well", "well", "refuses", "lost reply", "away", "half")


@dataclass
class FakeDriver:
    """Keeps what a real one would keep; every call meets the next fault."""

    world: "World"
    name: str
    held: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)

    async def prepare(self, claims: list[ClaimInfo], pod: str) -> ClaimsOutcome:
        for item in claims:
            assert self.name in self.world.on_disk().get(item.uid, ()), "asked before it was written down"
        return await self._meet(claims, self.held.update)

    async def unprepare(self, claims: list[ClaimInfo], pod: str) -> ClaimsOutcome:
        for item in claims:
            users = [pod for pod, names in self.world.using.items() if item.name in names]
            assert not users, f"{item.name} taken from {users}"
        return await self._meet(claims, self.held.difference_update)

    async def _meet(self, claims: list[ClaimInfo], effect: Any) -> ClaimsOutcome:
        fault = self.faults.pop() if self.faults else "well"
        await asyncio.sleep(0)
        if fault == "away":
            return failed_outcome("away")
        done = claims[:1] if fault == "half" else claims
        if fault != "refuses":
            effect({item.uid for item in done})
        await asyncio.sleep(0)
        if fault == "lost reply":
            return failed_outcome("lost")
        outcome = ClaimsOutcome()
        if fault == "refuses":
            outcome.error = DriverFailed("no")
            return outcome
        outcome.done = {item.uid: (PreparedDevice("n1", "d"),) for item in done}
        if fault == "half" and len(done) < len(claims):
            outcome.error = DriverFailed("half")
        return outcome


class World:
    """The node: its disk, its drivers, and one manager after the other."""

    def __init__(self) -> None:
        self.disk = encode([])
        self.drivers = {name: FakeDriver(self, name) for name in (A, B)}
        self.using: dict[str, tuple[str, ...]] = {}
        """Pods whose containers may run, and their claims."""
        self.ending: set[str] = set()
        self.full = False
        self.begin()

    def begin(self) -> None:
        """A new life of the manager, from the disk."""
        self.cache = ClaimCache(decode(self.disk))
        keeping = ClaimWriter(
            ClaimWriterOptions(lambda: list(self.cache.claims.values()), self._save, lambda line: None)
        )
        metrics = DraMetrics(CollectorRegistry(), self.cache.in_use)
        self.manager = ClaimPreparer(ClaimPreparerOptions(self.cache, self, keeping, metrics))  # type: ignore[arg-type]  # serving is all it asks

    def serving(self, name: str) -> FakeDriver:
        return self.drivers[name]

    def _save(self, raw: bytes) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.disk = raw

    def on_disk(self) -> dict[str, set[str]]:
        return {item.uid: set(item.drivers) for item in decode(self.disk)}

    async def prepare(self, pod: str) -> None:
        if pod in self.ending:
            return
        claims = tuple(claim(name, *CLAIMS[name]) for name in PODS[pod])
        with suppress(NodeplaneError):
            await self.manager.prepare(asks(pod, *claims))
            if pod not in self.ending:
                self.using[pod] = PODS[pod]

    async def end(self, pod: str) -> None:
        """As podworker: the containers are dead, then it asks until it works."""
        self.ending.add(pod)
        self.using.pop(pod, None)
        with suppress(NodeplaneError):
            await self.manager.unprepare(pod)
            assert all(pod not in item.pods for item in decode(self.disk)), "given back, but not on disk"
            self.ending.discard(pod)

    def check(self) -> None:
        known = self.on_disk()
        for driver in self.drivers.values():
            lost = {uid for uid in driver.held if driver.name not in known.get(uid, ())}
            assert not lost, f"{driver.name} holds {lost}, and nobody knows"
        for pod, names in self.using.items():
            for name in names:
                holders = {driver.name for driver in self.drivers.values() if f"{name}-uid" in driver.held}
                assert holders == set(CLAIMS[name]), f"{name} of {pod} is with {holders} only"


ACTIONS = st.tuples(st.sampled_from(["prepare", "end"]), st.sampled_from(sorted(PODS)))
TURN = st.tuples(
    st.lists(ACTIONS, min_size=1, max_size=4),
    st.lists(st.sampled_from(FAULTS), max_size=4),
    st.none() | st.integers(0, 12),
    st.booleans(),
)
"""What happens at once, what the drivers meet, after how many steps of the loop the manager is killed, and whether the
disk is full."""


@given(st.lists(TURN, max_size=12))
async def test_nothing_is_lost_and_nothing_is_taken(turns: list[Any]) -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    world = World()
    for actions, faults, killed_after, full in turns:
        world.full = full
        for number, fault in enumerate(faults):
            world.drivers[(A, B)[number % 2]].faults.append(fault)
        await play(world, actions, killed_after)
        world.check()
    world.full = False
    for driver in world.drivers.values():
        driver.faults.clear()
    for pod in PODS:
        await world.end(pod)
    assert [driver.held for driver in world.drivers.values()] == [set(), set()]
    assert decode(world.disk) == []


async def play(world: World, actions: list[tuple[str, str]], killed_after: int | None) -> None:
    calls = {"prepare": world.prepare, "end": world.end}
    tasks = [asyncio.create_task(calls[word](pod)) for word, pod in actions]
    if killed_after is None:
        await asyncio.gather(*tasks)
        return
    for _ in range(killed_after):
        await asyncio.sleep(0)
    inner = asyncio.all_tasks() - {asyncio.current_task()}
    for task in inner:  # as kill -9: nothing goes on, whatever it waited for
        task.cancel()
    await asyncio.gather(*inner, return_exceptions=True)
    await asyncio.to_thread(lambda: None)  # what the disk had begun to write is written
    world.begin()


async def test_close_aborts_a_preparation_before_its_driver_is_called() -> None:
    world = World()
    waiting = asyncio.create_task(world.manager.prepare(asks("p", claim("one", A))))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await world.manager.close()
    with pytest.raises(PreparationAborted, match="is ending"):
        await waiting
    assert not world.drivers[A].held


async def test_unprepare_cancelled_after_the_driver_was_called_prepares_again_for_the_next_pod(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, called = World(), asyncio.Event()

    async def obey_without_answer(claims: list[ClaimInfo], pod: str) -> ClaimsOutcome:
        world.drivers[A].held.clear()
        called.set()
        return await asyncio.Future()

    await world.prepare("p")
    with monkeypatch.context() as patch:
        patch.setattr(world.drivers[A], "unprepare", obey_without_answer)
        ending = asyncio.create_task(world.end("p"))
        await called.wait()
        ending.cancel()
        await asyncio.wait([ending])
    await world.prepare("r")
    assert "r" in world.using
    world.check()


async def test_unprepare_again_after_a_full_disk_is_durable() -> None:
    world = World()
    await world.prepare("r")
    world.full = True
    await world.end("r")
    await world.end("r")
    assert "r" in world.ending, "not answered before it is on disk"
    world.full = False
    await world.end("r")
    assert decode(world.disk) == []
