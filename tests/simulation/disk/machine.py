"""A simulated machine's disk in the world, and the faults that hit it.

| kind | what happens | value |
|---|---|---|
| power | all processes die at once, and what was not synced is lost in part | below 0.3 now, else at a later call |
| die | one process is killed within a call, often the end of a transaction; in a third the power goes, too | which |
| full | files cannot grow beyond some bytes, for some seconds | both |
| eio | one to three calls fail: reads, writes or syncs; in a half later ones, with a kill after them | which |
| slow | an fsync takes up to 2 s, for up to 5 s | both |
"""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tests.simulation.disk.disk import Disk, Owner
from tests.simulation.disk.faults import Faults
from tests.simulation.disk.system import System
from tests.simulation.model import Fault
from tests.simulation.world.faults import KINDS
from tests.simulation.world.process import Process

if TYPE_CHECKING:
    from tests.simulation.world.world import World

CALLS = 40
"""Most calls from a fault until it strikes within one."""
COMMIT_SHARE = 0.3
CUT_SHARE = 1 / 3
CUT_CALLS = 15
"""Most calls from the end of a process until the power is cut: about what a store does before its first commit."""
FREE = 200_000
SECONDS = 1.0, 5.0
SYNC_S = 2.0
LATE_S = 2.0
"""Seconds after which power or process goes even if nobody changes the disk."""
OPERATIONS = "read", "write", "sync"
AFTER_S = 10.0
"""Seconds after a fault of the disk during which errors of processes are its consequence."""
DISK_FAULTS = "power", "die", "full", "eio", "slow"


class Machine:
    """The disk below a root, and the processes that go with its power. Make it once all is installed."""

    def __init__(self, world: "World", root: Path, processes: Iterable[str]) -> None:
        self._world, self._processes = world, tuple(processes)
        self._system = System(lambda: world.current)
        self._system.install()
        self.disk: Disk = self._system.disk(root, world.random("disk"))
        self.disk.spend = self._spend
        self.disk.on_last_call = self._strike
        self._pending: Callable[[Owner | None], object] = self._cut_power
        self._round = 0
        world.on_end.append(self._ended)
        KINDS.update({kind: getattr(self, kind) for kind in DISK_FAULTS})

    def _spend(self, seconds: float) -> None:
        self._world.spent += seconds

    def _ended(self, process: Process, code: int, number: int) -> None:
        """Close what it has open, once the call in which it died has returned."""
        self._world.at(0, None, lambda: self._system.bury(process))

    def power(self, world: "World", fault: Fault) -> None:
        if fault.value < 0.3:
            self._cut_power(None)
        else:
            self.cut_power_at_call(self._call(world, (fault.value - 0.3) / 0.7))

    def die(self, world: "World", fault: Fault) -> None:
        """What a killed process wrote and did not sync is read by its next incarnation, until the power is cut."""
        cut = world.random("faults/die").random()

        def kill(owner: Owner | None) -> None:
            world.kill(owner.name if owner else fault.target)
            if cut < CUT_SHARE:
                self.cut_power_at_call(1 + int(cut / CUT_SHARE * CUT_CALLS))
            elif cut < 2 * CUT_SHARE:
                self._strike_later(0, lambda owner: world.kill(owner.name if owner else fault.target))

        self._strike_later(self._call(world, fault.value), kill)

    def _call(self, world: "World", value: float) -> int:
        """Return the number of the call that is struck; 0: that within the end of the next transaction."""
        return 0 if world.random("faults/commit").random() < COMMIT_SHARE else 1 + int(value * CALLS)

    def cut_power_at_call(self, calls: int) -> None:
        """Cut the power at a call that changes the disk, counted from now; at the latest in LATE_S."""
        self._strike_later(calls, self._cut_power)

    def _strike_later(self, calls: int, strike: Callable[[Owner | None], object]) -> None:
        self._pending = strike
        self._round += 1
        self.disk.faults.calls_left, self.disk.faults.at_commit = calls or None, not calls
        self._world.at(LATE_S, None, partial(self._strike_late, self._round))

    def _strike_late(self, round: int) -> None:
        if round == self._round:
            self._strike(None)

    def _strike(self, owner: Owner | None) -> None:
        self.disk.faults.calls_left, self.disk.faults.at_commit = None, False
        self._round += 1
        self._pending(owner)

    def _cut_power(self, owner: Owner | None) -> None:
        self._world.happened("machine", "loses power")
        for name in self._processes:
            self._world.kill(name)
        self._world.at(0, None, self._restart)

    def _restart(self) -> None:
        self.disk.cut()
        self.disk.faults = Faults()
        self._round += 1

    def full(self, world: "World", fault: Fault) -> None:
        """Let others fill the disk; not while it is full."""
        if self.disk.faults.free is None:
            self.disk.faults.free = int(fault.value * 1e6) % FREE
            self._lift(fault.value, lambda faults: setattr(faults, "free", None))

    def eio(self, world: "World", fault: Fault) -> None:
        number, chance = int(fault.value * 9), world.random("faults/eio")
        failing = {OPERATIONS[number % 3]: 1 + number // 3}

        def fail(owner: Owner | None) -> None:
            self.disk.faults.failing = failing
            self.die(world, Fault(fault.at, "die", fault.target, chance.random()))

        if chance.random() < 0.5:
            self._strike_later(1 + int(chance.random() * CALLS), fail)
        else:
            self.disk.faults.failing = failing
        self._lift(fault.value, lambda faults: faults.failing.clear())

    def slow(self, world: "World", fault: Fault) -> None:
        self.disk.faults.sync_seconds = fault.value * SYNC_S
        self._lift(1 - fault.value, lambda faults: setattr(faults, "sync_seconds", 0.0))

    def _lift(self, value: float, lift: Callable[[Faults], object]) -> None:
        """End a fault after some seconds; it is one of this life of the disk, which a power cut ends."""
        low, high = SECONDS
        seconds, faults = low + value * (high - low), self.disk.faults
        self._world.at(seconds, None, lambda: lift(faults))
        self._world.excuses.append((self._world.elapsed, self._world.elapsed + seconds + AFTER_S))
