"""See whether a program is ever idle: whether there is a moment in which all of its threads sleep.

On a machine with more to do than it has processors, a program that polls waits for one most of the time, as one that
spins does; but it sleeps in between, and one that spins never does, however seldom it runs.
"""

import asyncio
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from supervisor.conform.program import Program
from supervisor.conform.verdict import Failed, NotApplicable

OPEN_S = 0.2
"""Time that a stream stays open: one closed at its first message may never get to the loop that waits for changes."""
NOTICED_S = 2.0
"""Time until a program spins that does: it may notice the end of a call late."""
RAN_S, MOST_S = 0.5, 30.0
"""Processor time after which a program that never slept spins, and the time that it has for it on a busy machine."""
STARTED_S = 5.0
"""Processor time after which a program has started, though it never sleeps."""
PAUSE_S = 0.02
AWAKE = ("R", "D", "T")
"""States of threads that run, are ready to run, wait for a disk, or were stopped by a signal whatever they did."""


class Thread(NamedTuple):
    """A thread as the kernel has it: equal to an earlier reading if it was not given a processor in between."""

    state: str
    ran: int
    """Nanoseconds that it ran, of all time."""
    times: int
    """Number of its turns on a processor."""


async def check_idle(program: Program, when: str) -> None:
    """Watch it for some seconds. Raises Failed if it spins, NotApplicable where no times of threads are counted."""
    await asyncio.sleep(NOTICED_S)
    began, first = time.monotonic(), read_threads(tasks(program))
    if not first and program.runs:
        raise NotApplicable("this kernel counts no times of threads: /proc/PID/schedstat is missing")
    while not is_asleep(program) and (watched := time.monotonic() - began) < MOST_S:
        if (ran := seconds(read_threads(tasks(program))) - seconds(first)) > RAN_S:
            raise Failed(f"{when} it ran {ran:.1f} s within {watched:.1f} s, and a thread was always awake: it spins")
        await asyncio.sleep(PAUSE_S)


async def until_asleep(program: Program, most: float) -> None:
    """Wait until the program has started and sleeps, or spins; at most so many seconds."""
    deadline = time.monotonic() + most
    while time.monotonic() < deadline and seconds(read_threads(tasks(program))) < STARTED_S:
        if is_asleep(program):
            return
        await asyncio.sleep(PAUSE_S)


def is_asleep(program: Program) -> bool:
    """Return True if there was a moment just now in which all threads slept."""
    threads = tasks(program)
    return slept(read_threads(threads), read_threads(threads))


def slept(before: Mapping[str, Thread], now: Mapping[str, Thread]) -> bool:
    """Return True if all threads slept from one reading to the next; threads that wake each other run in between."""
    return before == now and all(thread.state not in AWAKE for thread in now.values())


def tasks(program: Program) -> list[str]:
    """Return the directories below /proc of all threads."""
    paths: list[str] = []
    for process in program.processes():
        with suppress(OSError):  # it has ended meanwhile
            paths += [entry.path for entry in os.scandir(process / "task")]
    return paths


def read_threads(paths: Iterable[str]) -> dict[str, Thread]:
    """Read quickly: the longer that takes, the fewer threads sleep from its begin to its end."""
    threads = {}
    for path in paths:
        with suppress(OSError):
            ran, _, times = _read(f"{path}/schedstat").split()
            state = _read(f"{path}/stat").rpartition(b")")[2].split()[0]
            threads[path] = Thread(state.decode(), int(ran), int(times))
    return threads


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()


def seconds(threads: Mapping[str, Thread]) -> float:
    """Return the processor time of all threads."""
    return sum(thread.ran for thread in threads.values()) / 1e9
