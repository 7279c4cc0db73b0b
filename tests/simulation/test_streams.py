"""Faults of connections hit: half-open ones, slow readers, resets in the middle of a frame."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.control.profile import ControlProfile
from tests.simulation.model import Fault
from tests.simulation.world.faults import KINDS
from tests.simulation.world.process import Process
from tests.simulation.world.world import World

CONNECTIONS = 12
FRAME = b"0123456789"
PAUSE_S = 0.05
FAULT_AT, LASTS = 1.0, 0.5
"""When the fault comes, and its value."""


class Received(asyncio.Protocol):
    """What one end of a connection got, and when."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.pieces: list[tuple[float, bytes]] = []
        self.lost: tuple[float, Exception | None] | None = None

    def data_received(self, data: bytes) -> None:
        self.pieces.append((self._world.elapsed, data))

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = self._world.elapsed, error

    @property
    def size(self) -> int:
        return sum(len(data) for _, data in self.pieces)

    def within(self, begin: float, end: float) -> int:
        return sum(begin < at <= end for at, _ in self.pieces)


class Pair:
    """A world with a server, and a client that sends a frame on each of its connections every PAUSE_S."""

    def __init__(self, root: Path) -> None:
        self.world = World(1, root)
        self.world.network.cut_share = 0.0
        self.served: list[Received] = []
        self.clients: list[Received] = []
        self.sent = 0
        self.world.mains = {"server": self._serve, "client": self._send}
        self.world.mortal = ("server", "client")
        for name in self.world.mains:
            self.world.spawn(name)

    def _made(self, ends: list[Received]) -> Received:
        ends.append(Received(self.world))
        return ends[-1]

    async def _serve(self, process: Process) -> None:
        await process.loop.create_server(lambda: self._made(self.served), "", 1)
        await asyncio.Event().wait()

    async def _send(self, process: Process) -> None:
        await asyncio.sleep(0.1)
        made: list[Any] = [
            await process.loop.create_connection(lambda: self._made(self.clients), "", 1) for _ in range(CONNECTIONS)
        ]
        while True:
            if self.world.elapsed < 5.0:
                self.sent += len(FRAME)
                for transport, _ in made:
                    transport.write(FRAME)
            await asyncio.sleep(PAUSE_S)

    def hit(self, kind: str) -> None:
        self.world.run(FAULT_AT)
        KINDS[kind](self.world, Fault(FAULT_AT, kind, "server", LASTS))
        self.world.run(9.0)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    yield made
    for process in made.world.processes.values():
        for task in asyncio.all_tasks(process.loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # no noise of tasks that never end
        process.loop.close()


def split(ends: list[Received], hit: bool) -> list[Received]:
    return [end for end in ends if (end.lost is not None) == hit]


def test_half_open_connections_lose_everything_and_are_reset_at_last(pair: Pair) -> None:
    pair.hit("halfopen")
    assert split(pair.served, hit=True)
    assert split(pair.served, hit=False)
    for end in split(pair.served, hit=True) + split(pair.clients, hit=True):
        assert end.lost is not None
        assert isinstance(end.lost[1], ConnectionResetError)
        assert end.lost[0] == pytest.approx(FAULT_AT + 8 * LASTS, abs=0.1)
        assert end.within(FAULT_AT + 0.2, 10.0) == 0
    assert all(end.size == pair.sent for end in split(pair.served, hit=False))


def test_a_slow_reader_gets_everything_late(pair: Pair) -> None:
    pair.hit("slowread")
    counts = sorted(end.within(FAULT_AT, FAULT_AT + 6 * LASTS) for end in pair.served)
    assert counts[0] < counts[-1] * 0.6
    assert all(end.size == pair.sent and end.lost is None for end in pair.served)


def test_a_torn_connection_ends_within_a_frame(pair: Pair) -> None:
    pair.hit("torn")
    torn = split(pair.served, hit=True)
    assert len(torn) == len(split(pair.clients, hit=True))
    assert any(end.size % len(FRAME) for end in torn)
    assert all(end.lost is not None and isinstance(end.lost[1], ConnectionResetError) for end in torn)
    assert split(pair.served, hit=False)


def test_control_draws_each_kind() -> None:
    assert {"halfopen", "slowread", "torn"} <= set(ControlProfile.kinds)
