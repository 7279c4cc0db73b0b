"""The life of one child under every order of events."""

import random
import signal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from protocols.messages.supervisor import Heartbeat
from supervisor.base.groups import ChildSpec, Restart, SupervisionLimits
from supervisor.tree.policy import Child, describe
from supervisor.tree.states import Action, ChildState, ChildUsage, GiveUp, ProcessExit, Signal, Spawn

LIMITS = SupervisionLimits()
KILLED = ProcessExit(signal=9)


def make(restart: Restart = Restart.PERMANENT, **limits: Any) -> Child:
    spec = ChildSpec(instance="a", actor="a", group="node", module="m", restart=restart)
    return Child(spec, SupervisionLimits(**limits), random.Random(1))


def beat(pid: int, state: str = "ready") -> Heartbeat:
    return Heartbeat(instance="a", pid=pid, epoch=1, state=state)


def up(child: Child, pid: int, now: float) -> None:
    """Spawned and ready at `now`."""
    assert child.spawned(pid, now) == []
    child.on_beat(beat(pid), now)
    assert child.state is ChildState.READY


def started(now: float = 0.0, **limits: Any) -> Child:
    child = make(**limits)
    assert child.start(now) == [Spawn("a")]
    up(child, 100, now)
    return child


def test_child_beats_after_ready_is_live() -> None:
    child = started()
    child.on_beat(beat(100), 1.0)
    assert child.state is ChildState.LIVE
    assert child.settled


def test_child_waiting_for_others_is_starting() -> None:
    child = make()
    child.start(0.0)
    child.spawned(100, 0.0)
    for second in range(1, 100):
        child.on_beat(beat(100, "starting"), float(second))
        assert child.tick(float(second)) == []
    assert child.state is ChildState.STARTING


def test_child_first_restart_is_immediate() -> None:
    child = started()
    assert child.exited(KILLED, 1.0) == [Spawn("a")]
    up(child, 101, 1.1)
    assert child.exited(KILLED, 2.0) == []
    assert child.state is ChildState.BACKOFF
    due = child.deadline()
    assert due is not None
    assert 2.08 <= due <= 2.12
    assert child.tick(2.05) == []
    assert child.tick(2.13) == [Spawn("a")]
    assert child.reason == "killed by SIGKILL"
    assert child.restarts == 2


def test_child_healthy_minute_forgives() -> None:
    child = started()
    child.exited(KILLED, 1.0)
    up(child, 101, 1.0)
    assert child.exited(KILLED, 62.0) == [Spawn("a")]


def test_backoff_doubles_to_limit() -> None:
    child = started(crashes=1000)
    now, waits = 0.0, []
    for pid in range(101, 115):
        child.exited(KILLED, now)
        if child.state is ChildState.BACKOFF:
            due = child.deadline()
            assert due is not None
            waits.append(due - now)
            now = due
            child.tick(now)
        up(child, pid, now)
    assert waits[1] > 1.3 * waits[0]
    assert max(waits) <= 30 * 1.2
    assert waits[-1] >= 30 * 0.8


def test_backoff_time_in_it_is_not_healthy() -> None:
    child = started(crashes=1000, jitter=0.0)
    now, waits = 0.0, []
    for pid in range(101, 120):
        now += 50.0
        child.exited(KILLED, now)
        while child.state is ChildState.BACKOFF:
            now += 1.0
            child.tick(now)
        waits.append(now)
        up(child, pid, now)
    assert waits[-1] - waits[-2] >= 50 + 30


def test_child_ordered_kill_never_counts() -> None:
    child = started()
    now = 0.0
    for pid in range(100, 300):
        assert child.ordered_kill(9, now) == [Signal("a", pid, 9, "ordered")]
        assert child.exited(KILLED, now + 0.01) == [Spawn("a")]
        up(child, pid + 1, now + 0.02)
        now += 0.05
    assert child.restarts == 200


def test_child_ordered_signal_excuses_for_a_while() -> None:
    child = started()
    child.ordered_kill(signal.SIGUSR1, 0.0)
    child.exited(KILLED, 1.0)
    up(child, 101, 1.0)
    child.ordered_kill(signal.SIGUSR1, 2.0)
    assert child.exited(KILLED, 30.0) == [Spawn("a")], "the first crash that counts"
    up(child, 102, 30.0)
    assert child.exited(KILLED, 31.0) == [], "the second"


def test_child_start_failures_end_it() -> None:
    child = make()
    child.start(0.0)
    now, actions = 0.0, list[Action]()
    for pid in range(1, 100):
        child.spawned(pid, now)
        actions = child.exited(ProcessExit(code=1, reason="no database"), now)
        if child.state is ChildState.FAILED:
            break
        now = child.deadline() or now
        if child.state is ChildState.BACKOFF:
            child.tick(now)
    reason = "died 5 times before it was ready; last: exit 1: no database"
    assert actions == [GiveUp("a", reason, True)]
    assert pid == 5
    assert child.start(now) == [Spawn("a")], "an order brings it back"


def test_child_crash_loop_ends_it() -> None:
    child = started(backoff_s=0.001, backoff_max_s=0.01)
    now = 0.0
    for pid in range(101, 200):
        child.exited(KILLED, now)
        if child.state is ChildState.FAILED:
            break
        now += 0.1
        child.tick(now)
        up(child, pid, now)
    assert pid - 100 == LIMITS.crashes
    assert child.reason.startswith("crashed 30 times in 60 s")


def test_child_silent_is_hung() -> None:
    child = started()
    assert child.tick(4.9) == []
    (abort,) = child.tick(5.1)
    assert abort == Signal("a", 100, signal.SIGABRT, "hung: no beat for 5 s")
    assert child.state is ChildState.HUNG
    assert child.tick(5.5) == []
    (kill,) = child.tick(6.2)
    assert isinstance(kill, Signal)
    assert kill.signal == signal.SIGKILL
    assert child.exited(KILLED, 6.3) == [Spawn("a")]
    assert child.reason == "hung: no beat for 5 s"


def test_child_without_beat_has_start_time() -> None:
    child = make()
    child.start(0.0)
    child.spawned(100, 0.0)
    assert child.tick(19.0) == []
    (abort,) = child.tick(20.1)
    assert abort == Signal("a", 100, signal.SIGABRT, "hung: no beat for 20 s")


def test_child_forkserver_still_imports_is_not_hung() -> None:
    child = make()
    child.start(0.0)
    assert child.tick(60.0) == []
    up(child, 100, 61.0)
    assert child.tick(63.0) == []


def test_child_supervisor_stopped_is_not_blamed() -> None:
    child = started()
    child.on_beat(beat(100), 1.0)
    child.extend_limits(1000.0)
    assert child.tick(1001.0) == []


def test_child_beat_of_earlier_process_is_ignored() -> None:
    child = started()
    child.exited(KILLED, 1.0)
    child.spawned(101, 1.0)
    child.on_beat(beat(100), 1.1)
    assert child.state is ChildState.STARTING


def test_stop_after_grace_kills() -> None:
    child = started()
    assert child.stop(1.0) == [Signal("a", 100, signal.SIGTERM, "stop")]
    assert child.stop(1.1) == []
    assert child.tick(7.9) == []
    (kill,) = child.tick(8.1)
    assert isinstance(kill, Signal)
    assert kill.signal == signal.SIGKILL
    assert child.exited(KILLED, 8.2) == []
    assert child.state is ChildState.STOPPED


def test_stop_before_fork_is_reported() -> None:
    child = make()
    child.start(0.0)
    assert child.stop(0.0) == []
    assert child.spawned(100, 0.1) == [Signal("a", 100, signal.SIGTERM, "stop")]


def test_restart_is_orderly_and_does_not_count() -> None:
    child = started()
    for pid in range(100, 150):
        child.restart(float(pid))
        assert child.exited(ProcessExit(), float(pid)) == [Spawn("a")]
        up(child, pid + 1, float(pid))
    assert child.reason == "restart ordered"


def test_child_transient_may_end() -> None:
    child = make(Restart.TRANSIENT)
    child.start(0.0)
    child.spawned(1, 0.0)
    assert child.exited(ProcessExit(), 0.1) == []
    assert child.state is ChildState.STOPPED
    child.start(1.0)
    child.spawned(2, 1.0)
    assert child.exited(ProcessExit(code=1), 1.1) == [Spawn("a")]


def test_child_dies_with_forkserver_is_no_fault() -> None:
    child = started()
    for _ in range(100):
        child.lost_with_forkserver("the forkserver died")
        assert child.state is ChildState.WAITING
        assert child.start(0.0) == [Spawn("a")]
        child.spawned(7, 0.0)


def test_child_fork_refused_is_retried_then_given_up() -> None:
    child, now = make(), 0.0
    child.start(now)
    for refusal in range(LIMITS.fork_failures - 1):
        assert child.fork_failed("fork: no pids", now) == []
        assert child.state is ChildState.BACKOFF
        due = child.deadline()
        assert due is not None
        assert due >= now + 0.08, f"refusal {refusal} leads to a busy loop"
        assert child.tick(due) == [Spawn("a")]
        now = due
    assert now > 60
    assert [type(action) for action in child.fork_failed("fork: no pids", now)] == [GiveUp]
    assert child.reason.endswith("last: fork: no pids")


def test_child_forked_again_forgets_refusals() -> None:
    child = make()
    child.start(0.0)
    for _ in range(50):
        child.fork_failed("fork: no pids", 0.0)
        child.tick(1000.0)
        child.spawned(1, 1000.0)
        child.on_beat(beat(1), 1000.0)
        child.lost_with_forkserver("x")
        child.start(1000.0)
    assert child.state is ChildState.STARTING


def test_child_has_one_process_of_two_that_were_ordered() -> None:
    """One was ordered for a child of its name that was forgotten. It held the name, and the other failed for that."""
    child = started()
    assert child.spawned(101, 1.0) == [Signal("a", 101, signal.SIGKILL, "one too many")]
    assert child.pid == 100


def test_child_refused_while_stopping_is_stopped() -> None:
    child = make()
    child.start(0.0)
    child.stop(0.1)
    assert child.fork_failed("fork: no pids", 0.2) == []
    assert child.state is ChildState.STOPPED


def test_reason_of_exit_is_readable() -> None:
    assert describe(ProcessExit(signal=9)) == "killed by SIGKILL"
    assert describe(ProcessExit(signal=250)) == "killed by signal 250"
    assert describe(ProcessExit(code=2, reason="bad flag")) == "exit 2: bad flag"
    assert describe(ProcessExit(code=-1, reason="fork: no memory")) == "not started: fork: no memory"


STEP = st.tuples(
    st.sampled_from(
        [
            "beat",
            "silent",
            "exit",
            "clean",
            "stop",
            "start",
            "restart",
            "kill",
            "swept",
            "extend_limits",
            "refuse",
        ]
    ),
    st.floats(0.0, 7.0),
)


@given(st.lists(STEP, max_size=80), st.integers(0, 3))
def test_child_any_events_keep_invariants(steps: list[tuple[str, float]], seed: int) -> None:
    """At most one process, signals only to it, no spawn after a stop until somebody starts it again."""
    world = _World(seed)
    for what, pause in steps:
        world.step(what, pause)
    world.settle()


class _World:
    """A process table of one child."""

    def __init__(self, seed: int) -> None:
        spec = ChildSpec(instance="a", actor="a", group="node", module="m")
        self.child = Child(spec, LIMITS, random.Random(seed))
        self.now = 0.0
        self.pid = 0
        self.next_pid = 1
        self.wanted = True
        self.refusals = 0
        self.do(self.child.start(0.0))

    def do(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Spawn):
                assert self.pid == 0, "spawned beside a living process"
                assert self.wanted, "spawned although nobody wants it"
                if self.refusals:
                    self.refusals -= 1
                    self.do(self.child.fork_failed("no pids", self.now))
                    continue
                self.pid, self.next_pid = self.next_pid, self.next_pid + 1
                self.do(self.child.spawned(self.pid, self.now))
            elif isinstance(action, Signal):
                assert action.pid == self.pid, "signal to a process that is not there"
                if action.signal == signal.SIGKILL:
                    self.end(KILLED)

    def end(self, how: ProcessExit) -> None:
        if self.pid:
            self.pid = 0
            self.do(self.child.exited(how, self.now))

    def step(self, what: str, pause: float) -> None:
        self.now += pause
        self.do(self.child.tick(self.now))
        child = self.child
        if what == "beat":
            child.on_beat(beat(self.pid or 999), self.now)
        elif what in ("exit", "clean"):
            self.end(KILLED if what == "exit" else ProcessExit())
        elif what == "stop":
            self.wanted = False
            self.do(child.stop(self.now))
        elif what in ("start", "restart"):
            self.wanted = True
            self.do(child.start(self.now) if what == "start" else child.restart(self.now))
        elif what == "kill":
            self.do(child.ordered_kill(9, self.now))
        elif what == "swept":
            self.pid = 0
            child.lost_with_forkserver("swept")
            if child.state is ChildState.WAITING:
                self.do(child.start(self.now))
        elif what == "extend_limits":
            child.extend_limits(pause)
        elif what == "refuse":
            self.refusals = 1

    def settle(self) -> None:
        """Left alone with a healthy process, it is live again, or stays down for a reason."""
        for _ in range(80):
            self.now += 1.0
            if self.pid:
                self.child.on_beat(beat(self.pid), self.now)
            self.do(self.child.tick(self.now))
        assert self.child.state in (ChildState.LIVE, ChildState.FAILED, ChildState.STOPPED)
        assert (self.child.state is ChildState.LIVE) == (self.pid != 0)


def silent(child: Child, until: float, cpu: float, runnable: bool = False) -> tuple[float, list[Action]]:
    """Looks once a second at a child that uses `cpu` of a CPU and sends nothing; the first action and when it came."""
    now = 0.0
    while now < until:
        now += 1.0
        if child.is_silent(now):
            child.observe(ChildUsage(now * cpu, runnable), now)
        if actions := child.tick(now):
            return now, actions
    return now, []


def test_child_working_is_not_hung_before_limit() -> None:
    for cpu, runnable in ((1.0, False), (0.2, False), (0.0, True)):
        now, actions = silent(started(), 100.0, cpu, runnable)
        assert now == LIMITS.busy_s
        assert actions == [Signal("a", 100, signal.SIGABRT, "hung: no turn of its loop for 20 s, though it works")]


def test_child_waiting_is_hung_at_once() -> None:
    now, actions = silent(started(), 100.0, 0.01)
    assert now == LIMITS.beat_s
    assert actions == [Signal("a", 100, signal.SIGABRT, "hung: no beat for 5 s")]


def test_child_stops_working_is_hung_after_limit() -> None:
    child = started()
    assert silent(child, 8.0, 1.0) == (8.0, [])
    child.observe(ChildUsage(8.0, False), 9.0)
    assert child.tick(9.0) == child.tick(12.9) == []
    assert child.tick(13.0) == [Signal("a", 100, signal.SIGABRT, "hung: no beat for 5 s")]


def test_child_beat_ends_observation() -> None:
    child = started()
    assert silent(child, 10.0, 1.0) == (10.0, [])
    child.on_beat(beat(100), 10.0)
    assert not child.is_silent(12.0)
    child.observe(ChildUsage(10.1, False), 14.0)
    assert child.tick(15.0) == [Signal("a", 100, signal.SIGABRT, "hung: no beat for 5 s")]
