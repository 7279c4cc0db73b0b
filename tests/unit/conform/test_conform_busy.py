"""Which programs spin: those that run, and that are never seen with all of their threads asleep."""

from collections.abc import Iterator
from itertools import chain, repeat
from typing import Any

import pytest

from supervisor.conform import busy
from supervisor.conform.busy import Thread, check_idle, slept, until_asleep
from supervisor.conform.verdict import Failed, NotApplicable

SECOND = 1_000_000_000
Reading = dict[str, Thread]


def threads(*states: str, ran: float = 0.0) -> Reading:
    return {str(number): Thread(state, int(ran * SECOND), 7) for number, state in enumerate(states)}


@pytest.mark.parametrize(
    ("before", "now", "asleep"),
    [
        (threads("S", "S"), threads("S", "S"), True),
        (threads("R", "S"), threads("R", "S"), False),  # it waits for a processor all the time
        (threads("D"), threads("D"), False),
        (threads("T"), threads("T"), False),  # stopped while it ran
        (threads("S", "S"), threads("S", "S", ran=0.001), False),  # they wake each other, and sleep when they are read
        (threads("S"), threads("S", "S"), False),
        (threads("R"), {}, False),
        ({}, {}, True),
    ],
)
def test_program_slept_if_no_thread_ran_or_was_ready_to(before: Reading, now: Reading, asleep: bool) -> None:
    assert slept(before, now) == asleep


class Judged:
    runs = True


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Take what is read of the threads from an iterable, without a pause."""
    for name in ("NOTICED_S", "PAUSE_S"):
        monkeypatch.setattr(busy, name, 0.0)
    monkeypatch.setattr(busy, "tasks", lambda program: ["task"])

    def take(readings: Iterator[Reading]) -> None:
        monkeypatch.setattr(busy, "read_threads", lambda paths: next(readings))

    return take


async def check() -> None:
    program: Any = Judged()
    await check_idle(program, "without a kubelet")


async def test_program_that_always_runs_spins(read: Any) -> None:
    read(threads("R", "S", ran=0.01 * number) for number in range(1000))
    with pytest.raises(Failed, match=r"without a kubelet it ran 0\.5 s within .* s, and a thread was always awake"):
        await check()


async def test_poll_on_a_busy_machine_is_no_spin(read: Any) -> None:
    """It waits for a processor nearly all the time, and is asleep once when it is looked at."""
    ready = (threads("R", "S", ran=0.0005 * number) for number in range(300))
    read(chain(ready, repeat(threads("S", "S", ran=0.15))))
    await check()


async def test_program_that_gets_no_processor_is_not_judged(read: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(busy, "MOST_S", 0.01)
    read(repeat(threads("R", ran=0.1)))
    await check()


async def test_kernel_without_times_of_threads_is_not_applicable(read: Any) -> None:
    read(repeat({}))
    with pytest.raises(NotApplicable, match="schedstat"):
        await check()


async def test_start_is_waited_for_until_the_program_sleeps(read: Any) -> None:
    readings = chain((threads("R", ran=0.1 * number) for number in range(9)), repeat(threads("S", ran=0.9)))
    read(readings)
    program: Any = Judged()
    await until_asleep(program, 60.0)
    assert next(readings) == threads("S", ran=0.9)


async def test_start_of_a_program_that_spins_is_over_after_seconds(read: Any) -> None:
    read(threads("R", ran=0.5 * number) for number in range(15))
    program: Any = Judged()
    await until_asleep(program, 60.0)
