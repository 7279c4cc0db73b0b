"""Counting the steps that begin in a process, and stopping at one of them."""

import os
import signal
import time

import pytest

from protocols.messages.trace import MOST_STEPS, Step
from protocols.trace import call_begins, recorder, span, steps
from protocols.trace.steps import StepCounter
from supervisor.tree.states import usage_of


def counted(counter: StepCounter) -> list[tuple[str, str, int]]:
    return [(step.name, step.label, step.ordinal) for step in counter.found().steps]


@pytest.fixture
def counter(monkeypatch: pytest.MonkeyPatch) -> StepCounter:
    made = StepCounter(lambda: None)
    monkeypatch.setattr(recorder, "COUNTER", made)
    return made


def test_idle_counter_counts_nothing(counter: StepCounter) -> None:
    with span("pod", "sync"):
        call_begins("Register", "example.com/gpu")
    assert counted(counter) == []


def test_blocks_and_calls_outside_of_them_are_steps_with_ordinals(counter: StepCounter) -> None:
    counter.start(["old"])
    call_begins("Register", "example.com/gpu")
    with span("pod", "sync"), span("", "image", image="x", container="c"):
        call_begins("Allocate", "example.com/gpu")
    for pod in ("old", "", "pod"):
        with span(pod, "sync"):
            pass
    assert counted(counter) == [
        ("Register", "example.com/gpu", 1),
        ("sync", "", 1),
        ("image", "c", 1),
        ("sync", "", 2),
    ]


def test_stop_comes_once_before_the_step_and_end_forgets_it() -> None:
    stops: list[int] = []
    counting = StepCounter(lambda: stops.append(len(counting.found().steps)))
    counting.start((), Step("sync", "", 2))
    for _ in range(3):
        counting.begin("pod", "sync", {})
    assert stops == [2]
    counting.start((), Step("sync", "", 1))
    counting.end()
    counting.begin("pod", "sync", {})
    assert stops == [2]


def test_count_is_bounded() -> None:
    counter = StepCounter(lambda: None)
    counter.start(())
    for number in range(MOST_STEPS + 5):
        counter.begin("pod", f"step {number}", {})
    assert len(counter.found().steps) == MOST_STEPS


def test_process_that_stops_itself_runs_nothing_before_it_is_continued() -> None:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        steps.stop_self()
        os.write(writing, b"after")
        os._exit(0)
    os.close(writing)
    os.set_blocking(reading, False)
    while not (usage := usage_of(pid)) or not usage.stopped:
        time.sleep(0.001)
    with pytest.raises(BlockingIOError):
        os.read(reading, 5)
    os.kill(pid, signal.SIGCONT)
    os.waitpid(pid, 0)
    assert os.read(reading, 5) == b"after"
    os.close(reading)
