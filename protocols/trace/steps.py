"""Count the steps that begin in this process, for a test that kills at each of them, and stop at one.

A process that stops itself runs no instruction of the step before SIGCONT: what a test does meanwhile happens at the
step's begin and not a moment later. A supervisor ends a process that stays stopped, as one that hangs.
"""

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping

from protocols.messages.trace import MOST_STEPS, Step, StepList

LABELS = ("resource", "driver", "container")
"""Attributes that distinguish steps of one name, and are the same when a test runs again."""


def stop_self() -> None:
    """Stop the process; the kernel delivers a signal to the calling thread before the call returns."""
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


class StepCounter:
    """The steps of one process. Idle until a test asks; then it costs a dictionary entry a step."""

    def __init__(self, stop: Callable[[], None] = stop_self) -> None:
        self._stop = stop
        self._before: Collection[str] = ()
        self._counts: Counter[tuple[str, str]] = Counter()
        self._steps: list[Step] = []
        self._stop_at: tuple[str, str, int] | None = None
        self.counts = False

    def start(self, before: Collection[str], stop_at: Step | None = None) -> None:
        """Count from 1. `before`: uids of pods of earlier tests, which may still be ending."""
        self._before, self._steps = before, []
        self._counts.clear()
        self._stop_at = (stop_at.name, stop_at.label, stop_at.ordinal) if stop_at else None
        self.counts = True

    def end(self) -> None:
        self.start(())
        self.counts = False

    def found(self) -> StepList:
        return StepList(tuple(self._steps))

    def begin(self, pod: str, name: str, attributes: Mapping[str, object]) -> None:
        """Count a step; `pod` is empty for a call outside of a pod's life."""
        if not self.counts or pod in self._before or len(self._steps) >= MOST_STEPS:
            return
        key = name, next((str(attributes[label]) for label in LABELS if label in attributes), "")
        self._counts[key] += 1
        step = (*key, self._counts[key])
        self._steps.append(Step(*step, time.clock_gettime_ns(time.CLOCK_BOOTTIME)))
        if step == self._stop_at:
            self._stop_at = None
            self._stop()


COUNTER = StepCounter()
"""The process's own; a forked actor begins with an idle one."""
