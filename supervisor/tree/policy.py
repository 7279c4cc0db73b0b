"""The state machine of one child, without clock, process or socket.

The tree calls a method for each event, with its time in monotonic seconds, and performs the actions that it returns.

Invariants: at most one process at a time; a spawn is ordered only without a process; an ordered kill never counts
against the budget; missing heartbeats count only while the supervisor itself was running.

A child is hung without a heartbeat for `beat_s` if it does not work either (stopped, or waiting for a lock), and
without a heartbeat for `busy_s` whatever it does.
"""

import random
import signal
from collections import deque

from protocols.messages.supervisor import Heartbeat
from protocols.process.rates import backoff_delay
from protocols.process.texts import signal_name
from supervisor.base.groups import ChildSpec, Restart, SupervisionLimits
from supervisor.tree.states import (
    SERVING,
    WITH_PROCESS,
    Action,
    ChildState,
    ChildUsage,
    GiveUp,
    ProcessExit,
    Signal,
    Spawn,
)


class Backoff:
    """Delay before the next start: none, then doubling with jitter."""

    def __init__(self, limits: SupervisionLimits, chance: random.Random) -> None:
        self._limits = limits
        self._chance = chance
        self._level = 0

    def next(self) -> float:
        """Return the seconds to wait; 0 after `reset`."""
        level, self._level = self._level, self._level + 1
        if level == 0:
            return 0.0
        limits = self._limits
        base = backoff_delay(level, limits.backoff_s, limits.backoff_max_s)
        return base * self._chance.uniform(1 - limits.jitter, 1 + limits.jitter)

    def reset(self) -> None:
        self._level = 0


class Child:
    """One child. Attributes are read-only for others."""

    def __init__(self, spec: ChildSpec, limits: SupervisionLimits, chance: random.Random | None = None) -> None:
        self.spec = spec
        self.limits = limits
        self.state = ChildState.WAITING
        self.pid = 0
        self.restarts = 0
        self.reason = ""
        self.beat: Heartbeat | None = None
        self.started_at = 0.0
        self.ready_at: float | None = None
        self._beat_at = 0.0
        self._worked_at = 0.0
        self._usage: tuple[ChildUsage, float] | None = None
        self._deadline: float | None = None
        self._ordered_at: float | None = None
        self._again = False
        self._start_failures = 0
        self._fork_failures = 0
        self._crashes: deque[float] = deque(maxlen=limits.crashes)
        self._backoff = Backoff(limits, chance or random.Random())

    @property
    def has_process(self) -> bool:
        return self.state in WITH_PROCESS

    @property
    def settled(self) -> bool:
        """True once it serves or never will: `up` waits for that."""
        return self.state in SERVING or self.state in (ChildState.FAILED, ChildState.STOPPED)

    def start(self, now: float) -> list[Action]:
        """Start it, also after it failed or was stopped. No effect while it has a process."""
        if self.state is ChildState.STOPPING:
            self._again = True
            return []
        if self.has_process:
            return []
        if self.state is ChildState.FAILED:
            self._forget_crashes()
        return self._spawn(now)

    def spawned(self, pid: int, now: float) -> list[Action]:
        """Record the new process. A second one was ordered for a child of the same name that is forgotten."""
        if self.pid:
            return [Signal(self.spec.instance, pid, signal.SIGKILL, "one too many")]
        self.pid = pid
        self._fork_failures = 0
        self.started_at = self._beat_at = now
        if self.state is ChildState.STOPPING:
            return [self._signal(signal.SIGTERM, "stop")]
        return []

    def on_beat(self, beat: Heartbeat, now: float) -> None:
        """Record a heartbeat; those of an earlier or ending process are ignored."""
        if beat.pid != self.pid or not self.has_process:
            return
        self.beat = beat
        self._beat_at = now
        self._usage = None
        self._advance(beat, now)

    def is_silent(self, now: float) -> bool:
        """Return True if its CPU usage must be observed before each `tick`."""
        return bool(self.pid and self.beat) and now - self._beat_at >= self.limits.beat_s / 2

    def observe(self, usage: ChildUsage, now: float) -> None:
        """Record the CPU usage of a process without heartbeats."""
        before, self._usage = self._usage, (usage, now)
        worked = usage.cpu_s - before[0].cpu_s if before else 0.0
        if usage.runnable or (before and worked >= self.limits.busy_share * (now - before[1])):
            self._worked_at = now

    def exited(self, how: ProcessExit, now: float) -> list[Action]:
        """Record the end of the process."""
        if not self.has_process:
            return []
        was, self.pid, self.beat, self._deadline = self.state, 0, None, None
        if was is ChildState.STOPPING:
            return self._stopped(now)
        if self.spec.restart is Restart.TRANSIENT and how.clean:
            self.state = ChildState.STOPPED
            return []
        if was is not ChildState.HUNG:
            self.reason = describe(how)
        self.restarts += 1
        if self._excused(now):
            return self._spawn(now)
        return self._crashed(now)

    def fork_failed(self, reason: str, now: float) -> list[Action]:
        """Record a failed fork, for want of memory or pids; these have a budget of their own."""
        if self.pid or not self.has_process:
            return []
        if self.state is ChildState.STOPPING:
            self._deadline = None
            return self._stopped(now)
        self._fork_failures += 1
        if self._fork_failures >= self.limits.fork_failures:
            return self._fail(f"no process could be made {self._fork_failures} times; last: {reason}")
        delay = self._backoff.next() or self.limits.backoff_s
        self.state, self.reason, self._deadline = ChildState.BACKOFF, reason, now + delay
        return []

    def lost_with_forkserver(self, reason: str) -> None:
        """Record that the process died with the forkserver, which does not count against the budget."""
        if self.state is ChildState.STOPPING:
            self.state, self.pid, self._deadline = ChildState.WAITING if self._again else ChildState.STOPPED, 0, None
            self._again = False
        elif self.has_process:
            self.state, self.pid, self.beat, self._deadline = ChildState.WAITING, 0, None, None
            self.reason = reason
            self.restarts += 1

    def stop(self, now: float) -> list[Action]:
        """Stop it with SIGTERM, and SIGKILL after its grace period."""
        self._again = False
        if not self.has_process:
            self.state, self._deadline = ChildState.STOPPED, None
            return []
        if self.state is ChildState.STOPPING:
            return []
        self.state, self._deadline = ChildState.STOPPING, now + self.spec.grace_s
        return [self._signal(signal.SIGTERM, "stop")] if self.pid else []

    def restart(self, now: float, why: str = "restart ordered") -> list[Action]:
        """Stop and start it, which does not count against the budget."""
        if not self.has_process:
            return self.start(now)
        actions = self.stop(now)
        self._again = True
        self.reason = why
        return actions

    def ordered_kill(self, number: int, now: float) -> list[Action]:
        """Send an ordered signal (chaos); an end that follows does not count against the budget."""
        if not self.pid:
            return []
        self._ordered_at = now
        return [self._signal(number, "ordered")]

    def tick(self, now: float) -> list[Action]:
        """Act on deadlines and missing heartbeats."""
        if self.state in SERVING and self.ready_at is not None and now - self.ready_at >= self.limits.healthy_s:
            self._backoff.reset()
        if self._deadline is not None and now >= self._deadline:
            return self._deadline_passed(now)
        why = self._hung(now)
        return self._abort(why, now) if why else []

    def extend_limits(self, seconds: float) -> None:
        """Extend all limits of the child by a time in which the supervisor itself was stopped."""
        self._beat_at += seconds
        self._usage = None
        if self._deadline is not None and self.state is not ChildState.BACKOFF:
            self._deadline += seconds

    def deadline(self) -> float | None:
        """Return the time at which `tick` must be called."""
        return self._deadline

    def _spawn(self, now: float) -> list[Action]:
        self.state, self.pid, self.beat = ChildState.STARTING, 0, None
        self.started_at = self._beat_at = now
        self._usage = None
        self.ready_at = self._deadline = self._ordered_at = None
        return [Spawn(self.spec.instance)]

    def _advance(self, beat: Heartbeat, now: float) -> None:
        if self.state is ChildState.READY:
            self.state = ChildState.LIVE
        elif self.state is ChildState.STARTING and beat.state == "ready":
            self.state, self.ready_at, self._start_failures = ChildState.READY, now, 0

    def _stopped(self, now: float) -> list[Action]:
        self.state = ChildState.STOPPED
        if not self._again:
            return []
        self._again = False
        self.restarts += 1
        return self._spawn(now)

    def _excused(self, now: float) -> bool:
        return self._ordered_at is not None and now - self._ordered_at <= self.limits.ordered_s

    def _crashed(self, now: float) -> list[Action]:
        if self.ready_at is None:
            self._start_failures += 1
        elif now - self.ready_at >= self.limits.healthy_s:
            self._backoff.reset()
        self._crashes.append(now)
        broken = self._budget_broken(now)
        if broken:
            return self._fail(f"{broken}; last: {self.reason}")
        delay = self._backoff.next()
        if delay == 0:
            return self._spawn(now)
        self.state, self._deadline = ChildState.BACKOFF, now + delay
        return []

    def _budget_broken(self, now: float) -> str:
        limits = self.limits
        if self._start_failures >= limits.start_failures:
            return f"died {self._start_failures} times before it was ready"
        if len(self._crashes) == limits.crashes and now - self._crashes[0] <= limits.crash_period_s:
            return f"crashed {limits.crashes} times in {limits.crash_period_s:g} s"
        return ""

    def _fail(self, reason: str) -> list[Action]:
        self.state, self.reason = ChildState.FAILED, reason
        return [GiveUp(self.spec.instance, reason, self.spec.critical)]

    def _forget_crashes(self) -> None:
        self._start_failures = self._fork_failures = 0
        self._crashes.clear()
        self._backoff.reset()

    def _hung(self, now: float) -> str:
        limits = self.limits
        if not self.pid or (self.state not in SERVING and self.state is not ChildState.STARTING):
            return ""  # without a process it waits for the forkserver, which has deadlines of its own
        limit = limits.beat_s if self.beat else limits.start_s
        if now - max(self._beat_at, self._worked_at) >= limit:
            return f"hung: no beat for {limit:g} s"
        if now - self._beat_at >= max(limit, limits.busy_s):
            return f"hung: no turn of its loop for {now - self._beat_at:.0f} s, though it works"
        return ""

    def _abort(self, why: str, now: float) -> list[Action]:
        self.state, self.reason, self._deadline = ChildState.HUNG, why, now + self.limits.abort_s
        return [self._signal(signal.SIGABRT, why)] if self.pid else []

    def _deadline_passed(self, now: float) -> list[Action]:
        if self.state is ChildState.BACKOFF:
            return self._spawn(now)
        self._deadline = now + self.limits.abort_s
        return [self._signal(signal.SIGKILL, "would not end")] if self.pid else []

    def _signal(self, number: int, why: str) -> Signal:
        return Signal(self.spec.instance, self.pid, number, why)


def describe(how: ProcessExit) -> str:
    """Return `killed by SIGKILL`, or `exit 1: last line of its log`."""
    if how.signal:
        return f"killed by {signal_name(how.signal)}"
    text = f"exit {how.code}" if how.code >= 0 else "not started"
    return f"{text}: {how.reason}" if how.reason else text
