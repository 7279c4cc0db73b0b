"""The world: which process turns next, when messages and the results of threads arrive, and what time it is.

A process is a loop of its own: what is ready in it runs in order, as in reality. Which loop turns next is drawn. Time
moves with each turn, and to the next timer or event when no process has anything to do.
"""

import gc
import heapq
import itertools
import logging
import random
from collections.abc import Callable
from pathlib import Path

from tests.simulation.model import Main
from tests.simulation.world.bus import BusEnds
from tests.simulation.world.isolation import Isolation
from tests.simulation.world.network import Network
from tests.simulation.world.process import Process
from tests.simulation.world.trace import Trace

LATENCY = 0.00005, 0.003
"""Seconds from one process to another, and of work in a thread."""
SLOW_SHARE, SLOW_FACTOR = 0.01, 50
TURN = 0.00002
"""Seconds that one turn of a loop takes."""
START = 1_000.0
REAL_LIMITS = 0.25
"""Share of seeds with real limits."""
COLLECT_TURNS = 400_000
"""Turns between two collections of garbage: at places that the seed decides, as finalizers run then."""
RESOLUTION = 5e-10
"""Seconds; half of that of the loops' clocks, so that whatever counts as due here is due there."""
MOST_ERRORS = 1_000

Work = Callable[[], object]


class World:
    """Everything of one run. `current` is the process whose code runs now."""

    def __init__(self, seed: int, root: Path, *, show: bool = False) -> None:
        self.seed = seed
        self.root = root
        self.now = START
        self.trace = Trace(str(root), show=show)
        self.processes: dict[str, Process] = {}
        self.mains: dict[str, Main] = {}
        self.kill_by_fault: Callable[[str], object] = self.kill
        """How a fault kills: a supervisor may have to know of it."""
        self.mortal: tuple[str, ...] = ()
        """Names of processes that faults may hit."""
        self.current: Process | None = None
        self.slow_threads: dict[str, float] = {}
        """By process: seconds that the work of a thread takes at most, beside the usual."""
        self.spent = 0.0
        """Seconds that the code that runs now has waited for the kernel."""
        self.limits: dict[str, float] = {}
        self.graveyard: list[Process] = []
        """Dead processes stay referenced: nothing of theirs runs, also no `finally`."""
        self.on_end: list[Callable[[Process, int, int], object]] = []
        """Called with each process that ended, its exit code and the signal that ended it."""
        self._events: list[tuple[float, int, Process | None, Work]] = []
        self._timers: list[tuple[float, int, Process]] = []
        """A heap of times at which a process may be due: at least the next one of each."""
        self._due: dict[Process, None] = {}
        """Processes with something to do now."""
        self._numbers = itertools.count()
        self._pids = itertools.count(100)
        self._randoms: dict[str, random.Random] = {}
        self.real_limits = self.random("limits").random() < REAL_LIMITS
        """True if every limit has its real value."""
        self._order = self.random("order")
        self._delays = self.random("network")
        self.isolation = Isolation()
        self.network = Network(self)
        self.bus = BusEnds(self)
        self.errors: list[tuple[float, str, str]] = []
        """Log lines of level error or worse: time, process, text."""
        self.excuses: list[tuple[float, float]] = []
        """From when to when a fault explains that processes fail and log errors."""

    def random(self, name: str) -> random.Random:
        """Return the generator of one subject; each has its own, so that one does not shift the others."""
        found = self._randoms.get(name)
        if found is None:
            found = self._randoms[name] = _Random(f"{self.seed}/{name}")
        return found

    def draw(self, name: str, *values: float) -> float:
        """Draw a limit and record it for the outcome. The last value is the real one."""
        chosen = values[-1] if self.real_limits else self.random(f"limits/{name}").choice(values)
        self.limits[name] = chosen
        return chosen

    @property
    def elapsed(self) -> float:
        """Virtual seconds since the begin."""
        return self.now - START

    def at(self, delay: float, process: Process | None, work: Work) -> None:
        """Do `work` after `delay` seconds: in a turn of the process unless it is dead by then; None: of no process."""
        heapq.heappush(self._events, (self.now + delay, next(self._numbers), process, work))

    def at_time(self, when: float, process: Process | None, work: Work) -> None:
        heapq.heappush(self._events, (when, next(self._numbers), process, work))

    def latency(self) -> float:
        """Draw the time that a message or the work of a thread takes: now and then a long one."""
        delays = self._delays
        low, high = LATENCY
        drawn = low + (high - low) * delays.random()
        return drawn * SLOW_FACTOR if delays.random() < SLOW_SHARE else drawn

    def happened(self, process: str, text: str) -> None:
        self.trace.happened(self.elapsed, process, text)

    def logged(self, process: str, level: int, text: str) -> None:
        """Take a log line of a process."""
        self.happened(process, text)
        if level >= logging.ERROR and len(self.errors) < MOST_ERRORS:
            self.errors.append((self.elapsed, process, text))

    def excused(self, at: float) -> bool:
        return any(begin <= at <= end for begin, end in self.excuses)

    def spawn(self, name: str, main: Main | None = None) -> Process:
        """Start a process; `main` is the one of the table by default."""
        process = self.processes[name] = Process(self, name, next(self._pids))
        process.begin(main or self.mains[name])
        return process

    def kill(self, name: str, number: int = 9) -> Process | None:
        """End a process at once, between two of its turns. None: there is none."""
        process = self.processes.get(name)
        if process is not None:
            self.end(process, 0, number)
        return process

    def end(self, process: Process, code: int, number: int = 0) -> None:
        """Bury a process: whatever it holds is closed by the kernel or inert."""
        if not process.alive:
            return
        process.alive, process.code, process.ended_at = False, code, self.elapsed
        if self.processes.get(process.name) is process:
            del self.processes[process.name]
        self._due.pop(process, None)
        self.graveyard.append(process)
        process.bury()
        self.happened(process.name, f"ended by signal {number}" if number else f"ended with code {code}")
        for observer in self.on_end:
            observer(process, code, number)

    def run(self, seconds: float) -> None:
        """Run for so many virtual seconds."""
        end, heappop = self.now + seconds, heapq.heappop
        events, timers, due, order, trace = self._events, self._timers, self._due, self._order, self.trace
        while self.now < end:
            now = self.now
            while events and events[0][0] <= now:
                _, _, process, work = heappop(events)
                if process is None:
                    work()
                elif process.alive:
                    process.soon(work)
            if timers and timers[0][0] <= now + RESOLUTION:
                self._wake(now + RESOLUTION)
            if due:
                if len(due) > 1:
                    ready = [each for each in self.processes.values() if each in due]
                    chosen = ready[int(order.random() * len(ready))]
                else:
                    (chosen,) = due
                trace.turn(now, chosen.pid)
                chosen.turn()
                self.now += TURN
                if trace.turns % COLLECT_TURNS == 0:
                    gc.collect()
            else:
                first = timers[0][0] if timers else end
                if events and events[0][0] < first:
                    first = events[0][0]
                self.now = end if first > end else first if first > now else now

    def arm(self, process: Process) -> None:
        """Note when a process is due, whenever that has changed."""
        wake = process.wake
        if not process.alive:
            return
        if wake <= self.now + RESOLUTION:
            self._due[process] = None
        else:
            self._due.pop(process, None)
            if wake != process.armed:
                process.armed = wake
                heapq.heappush(self._timers, (wake, next(self._numbers), process))

    def _wake(self, limit: float) -> None:
        """Note who is due by now; entries of processes that are due later, or no more, are left overs."""
        timers = self._timers
        while timers and timers[0][0] <= limit:
            wake, _, process = heapq.heappop(timers)
            if process.armed == wake:
                process.armed = 0.0
            if process.alive and process.wake <= limit:
                self._due[process] = None


_Random = random.Random
"""The class itself, before the clock module replaces it by one without entropy."""
