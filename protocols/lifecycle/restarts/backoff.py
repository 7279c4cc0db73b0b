"""Back-off of crashed containers and pauses after failed starts. Pure.

Crashes: the first restart is immediate, then 10, 20 ... 300 s after the end of the last run.
Failed starts: retried 10 to 15 s later, as by kubelet, with every runtime. A pause belongs to its sandbox:
the same start may well succeed in another one.
"""

import random
from collections.abc import Callable

import msgspec

from protocols.lifecycle.pods.types import SECOND, BackoffEntry, PodActions, Start
from protocols.messages.pleg import ContainerStatus, PodStatus, SandboxStatus
from protocols.process.rates import backoff_delay

INITIAL_NS = 10 * SECOND
MAXIMUM_NS = 300 * SECOND
RESET_NS = 2 * MAXIMUM_NS
RETRY_S = 10.0
JITTER = 0.5
"""Largest share added to the pause, so that pods that failed together do not retry together."""
SOON_S = 1.0
"""First pause after a fault that is likely to pass by itself; doubles up to RETRY_S."""
SANDBOX = Start(name="", attempt=0)
"""Key of the sandbox's pause, beside those of containers."""


def expired(entry: BackoffEntry, finished_ns: int, now_ns: int) -> bool:
    """Return True if the container ran long enough since its restart for the next crash to count as the first."""
    return min(finished_ns, now_ns) - entry.updated_ns > RESET_NS


def ready_ns(entry: BackoffEntry | None, finished_ns: int, now_ns: int) -> int:
    """Return the earliest time of the next start after a run that ended at `finished_ns`; 0 = at once.

    An end that is yet to come is of before the clock went back, or of a runtime whose stamps never go back: then the
    back-off counts from the restart before it, unless that is yet to come, too.
    """
    if entry is None or expired(entry, finished_ns, now_ns):
        return 0
    since_ns = finished_ns if finished_ns <= now_ns + SECOND else entry.updated_ns
    return since_ns + entry.delay_ns if since_ns <= now_ns + SECOND else 0


def advance(entry: BackoffEntry | None, finished_ns: int, now_ns: int, spec_hash: str = "") -> BackoffEntry:
    """Return the entry after a restart at `now_ns`; the previous run ended at `finished_ns`."""
    fresh = entry is None or expired(entry, finished_ns, now_ns) or entry.hash != spec_hash
    delay = INITIAL_NS if fresh or entry is None else min(max(entry.delay_ns * 2, INITIAL_NS), MAXIMUM_NS)
    return BackoffEntry(delay_ns=delay, updated_ns=now_ns, hash=spec_hash)


def recover(restart_count: int, started_ns: int, spec_hash: str) -> BackoffEntry | None:
    """Derive the entry from a container's history after a restart of this process."""
    if restart_count <= 0:
        return None
    delay = int(backoff_delay(restart_count, INITIAL_NS, MAXIMUM_NS))
    return BackoffEntry(delay_ns=delay, updated_ns=started_ns, hash=spec_hash)


def ended_with_node_entry(finished_ns: int, spec_hash: str) -> BackoffEntry:
    """Return the entry of a container whose last run was stopped together with its node."""
    return BackoffEntry(delay_ns=0, updated_ns=finished_ns, hash=spec_hash)


def ended_with_node(entry: BackoffEntry | None, finished_ns: int) -> bool:
    """Return True if the run that ended at `finished_ns` does not count as a crash."""
    return entry is not None and not entry.delay_ns and finished_ns <= entry.updated_ns


def recover_all(status: PodStatus) -> dict[str, BackoffEntry]:
    """Derive entries by container name from the newest run of each.

    A sandbox ends when the plane or machine shuts down: a run that ended with it did not crash, and as many restarts as
    there were earlier sandboxes are not the container's.
    """
    sandboxes = {sandbox.id: sandbox for sandbox in status.sandboxes}
    backoffs: dict[str, BackoffEntry] = {}
    seen: set[str] = set()
    for container in status.containers:  # newest first
        if container.name not in seen and (entry := _recovered(container, sandboxes.get(container.sandbox_id))):
            backoffs[container.name] = entry
        seen.add(container.name)
    return backoffs


def _recovered(container: ContainerStatus, sandbox: SandboxStatus | None) -> BackoffEntry | None:
    if sandbox is None or not sandbox.ready:
        return ended_with_node_entry(container.finished_ns, container.spec_hash)
    return recover(container.restart_count - sandbox.attempt, container.started_ns, container.spec_hash)


class _Pause(msgspec.Struct, frozen=True):
    sandbox: str
    """Id of the sandbox to start in; empty if there was none yet."""
    until_ns: int
    times: int
    since_ns: int
    """Time of the last failed start."""
    existing: str = ""
    """Id of the container, if it only had to be started."""
    began_ns: int = 0
    """Time of the first failed start."""
    why: str = ""
    """Reason of the last failure."""

    def holds(self, step: Start, now_ns: int) -> bool:
        """Return True if the step is to wait.

        A container that was created meanwhile does not, and nothing does after the clock went back before the failure.
        """
        return self.since_ns <= now_ns < self.until_ns and step.existing == self.existing


class Pauses:
    """Pauses of one pod after failed starts. `retry_s`: length of a pause."""

    def __init__(self, retry_s: float = RETRY_S, jitter: Callable[[], float] = random.random) -> None:
        self._retry_s = retry_s
        self._jitter = jitter
        self._pauses: dict[str, _Pause] = {}

    def failed(self, step: Start, sandbox: str, now_ns: int, soon: bool = False, why: str = "") -> _Pause:
        name, before = step.name, self._pauses.get(step.name)
        times = before.times + 1 if before is not None and before.sandbox == sandbox else 1
        began_ns = before.began_ns if before is not None else now_ns
        delay = self._retry_s * (1 + JITTER * self._jitter())
        if soon:
            delay = backoff_delay(times, SOON_S, delay)
        pause = _Pause(sandbox, now_ns + int(delay * SECOND), times, now_ns, step.existing, began_ns, why)
        self._pauses[name] = pause
        return pause

    def passed(self, name: str) -> _Pause | None:
        """Drop the pause of a start that succeeded, and return it."""
        return self._pauses.pop(name, None)

    def clear(self) -> bool:
        """Drop all pauses, since their cause may be gone. Returns False if there were none."""
        there = bool(self._pauses)
        self._pauses.clear()
        return there

    def applied(self, plan: PodActions, now_ns: int) -> PodActions:
        """Return the plan without steps that are paused; `wake_ns` is the end of the first pause."""
        if plan.create_sandbox >= 0 and (pause := self._holding(SANDBOX, plan, now_ns)):
            return msgspec.structs.replace(plan, start=(), create_sandbox=-1, wake_ns=_first(plan, pause))
        pauses = {step: self._holding(step, plan, now_ns) for step in plan.start}
        withheld = [pause for pause in pauses.values() if pause]
        if not withheld:
            return plan
        start = tuple(step for step in plan.start if not pauses[step])
        return msgspec.structs.replace(plan, start=start, wake_ns=_first(plan, *withheld))

    def _holding(self, step: Start, plan: PodActions, now_ns: int) -> _Pause | None:
        pause = self._pauses.get(step.name)
        return pause if pause and pause.sandbox == plan.sandbox and pause.holds(step, now_ns) else None


def _first(plan: PodActions, *pauses: _Pause) -> int:
    ends = [pause.until_ns for pause in pauses]
    return min((*ends, plan.wake_ns) if plan.wake_ns else ends)
