"""A simulated process: a loop, a clock, memory of its own, and what the kernel closes when it dies."""

import random
from asyncio.events import _set_running_loop as set_running_loop
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from tests.simulation.model import Main
from tests.simulation.world.loop import SimLoop

if TYPE_CHECKING:
    from tests.simulation.world.world import World

Done = Callable[[Any, BaseException | None], object]


class ProcessExit(SystemExit):
    """Raised where a real process would leave with os._exit. asyncio lets it through to the world."""


class End(Protocol):
    """What a process holds open: a socket, a lock, a file."""

    def die(self) -> None:
        """Close it as the kernel does when the process is gone. Runs in no process."""
        ...


class Clock:
    """The clocks of one process, relative to the world's."""

    def __init__(self, chance: random.Random) -> None:
        self.boot = chance.uniform(0.0, 1000.0)
        """Seconds that the monotonic clock is ahead."""
        self.wall = chance.choice((0.0, 0.0, chance.uniform(-2.0, 2.0)))
        """Seconds that the wall clock is ahead."""
        self.stopped_at: float | None = None
        """The world's time at which the wall clock stopped."""

    def wall_time(self, now: float) -> float:
        return (now if self.stopped_at is None else self.stopped_at) + self.wall

    def stop(self, now: float) -> None:
        if self.stopped_at is None:
            self.stopped_at = now

    def go_on(self, now: float) -> None:
        """Run again from where it stopped: it is late from now on."""
        if self.stopped_at is not None:
            self.wall -= now - self.stopped_at
            self.stopped_at = None


class Process:
    """One incarnation."""

    def __init__(self, world: "World", name: str, pid: int) -> None:
        self.world, self.name, self.pid = world, name, pid
        self.alive = True
        self.code = 0
        """Its exit code, once it has ended."""
        self.ended_at = float("inf")
        """The world's elapsed time then."""
        self.turns = 0
        self._paused_until = 0.0
        self.wake = 0.0
        """The world's time from which on a turn of its loop would do something."""
        self.armed = 0.0
        """The wake that the world noted last, while it is to come."""
        self.clock = Clock(world.random(f"clock/{name}"))
        self._boot = self.clock.boot
        self.chance = world.random(f"process/{name}")
        """Stands for what the process draws from the system."""
        self.ends: dict[End, None] = {}
        self.failures: Counter[str] = Counter()
        """Of its tasks, by kind: what tasks.FAILURES is in a process of its own."""
        self.memory: dict[Any, Any] = {}
        """State that an object of a module keeps for its process."""
        self.globals: list[Any] = []
        """The values of `Isolation`'s places."""
        self.notes: dict[str, Any] = {}
        """What a profile wants to find again, also after its death."""
        self.loop = SimLoop(world, self)
        self._turn = self.loop.turn
        self._lane = 0.0

    def begin(self, main: Main) -> None:
        """Run `main` as the first task."""
        self.world.happened(self.name, f"started as pid {self.pid}")
        self.run(lambda: self.loop.create_task(self._live(main)))

    async def _live(self, main: Main) -> None:
        code = await main(self)
        raise ProcessExit(code if isinstance(code, int) else 0)

    def rearm(self) -> None:
        """Compute anew when it is due; called after whatever may have changed that."""
        wake = self.loop.due_at() - self._boot
        self.wake = wake if wake > self._paused_until else self._paused_until
        self.world.arm(self)

    @property
    def paused_until(self) -> float:
        """The world's time up to which it is stopped, as by SIGSTOP."""
        return self._paused_until

    @paused_until.setter
    def paused_until(self, until: float) -> None:
        self._paused_until = until
        self.rearm()

    def soon(self, work: Callable[[], object]) -> None:
        """Do work in its next turn."""
        self.loop.call_soon(work)
        self.wake = self._paused_until
        self.world.arm(self)

    def turn(self) -> None:
        self.turns += 1
        self.run(self._turn)

    def run(self, work: Callable[[], object]) -> None:
        """Run code of this process in its loop."""
        world = self.world
        world.current = self
        if world.isolation.last is not self.globals:
            world.isolation.enter(self.globals)
        set_running_loop(self.loop)
        try:
            work()
        except SystemExit as leaving:
            set_running_loop(None)
            world.current = None
            world.end(self, leaving.code if isinstance(leaving.code, int) else 1)
        finally:
            set_running_loop(None)
            world.current = None
            if world.spent:
                self._paused_until = max(self._paused_until, world.now) + self._take_spent()
            self.rearm()

    def _take_spent(self) -> float:
        spent, self.world.spent = self.world.spent, 0.0
        return spent

    def thread(self, work: Callable[[], Any], done: Done) -> None:
        """Do work beside the loop at a drawn time; `done` gets its result in a later turn."""
        slow = self.world.slow_threads.get(self.name, 0.0)
        delay = self.world.latency() + (slow and slow * self.world.random(f"threads/{self.name}").random())
        self.world.at(delay, None, lambda: self._work(work, done))

    def in_order(self, work: Callable[[], Any], done: Done) -> None:
        """The same in one thread: work begins when that before it has ended."""
        self._lane = max(self._lane, self.world.now) + self.world.latency()
        self.world.at_time(self._lane, None, lambda: self._work(work, done))

    def _work(self, work: Callable[[], Any], done: Done) -> None:
        if not self.alive:
            return
        if self.paused_until > self.world.now:
            self.world.at_time(self.paused_until, None, lambda: self._work(work, done))
            return
        value, error = None, None
        self.world.current = self
        self.world.isolation.enter(self.globals)
        try:
            value = work()
        except SystemExit as leaving:
            self.world.current = None
            self.world.end(self, leaving.code if isinstance(leaving.code, int) else 1)
            return
        except BaseException as caught:
            error = caught
        finally:
            self.world.current = None
        spent = self._take_spent()
        self._lane = max(self._lane, self.world.now + spent)
        self.world.at(spent + self.world.latency() / 4, self, lambda: done(value, error))

    def signal(self, number: int) -> None:
        """Call the process's handler of a signal; without one it ends."""
        handler = self.loop.signals.get(number)
        if not self.alive:
            return
        if handler is not None:
            callback, arguments = handler
            self.soon(lambda: callback(*arguments))
        else:
            self.world.end(self, 0, number)

    def bury(self) -> None:
        """Close what it holds."""
        for end in list(self.ends):
            end.die()
        self.ends.clear()


def running(world: "World") -> Process:
    """Return the process whose code runs. Raises RuntimeError outside of all."""
    if world.current is None:
        raise RuntimeError("this code runs in no simulated process")
    return world.current
