"""See whether a thread of a program is never idle."""

import asyncio
import time
from collections.abc import Mapping

from supervisor.conform.program import Program, Runnable
from supervisor.conform.verdict import NotApplicable

WATCHED_S, ROUNDS, MOST_ROUNDS = 1.0, 2, 6
"""So many equal rounds in a row decide: the program may notice the end late, and a thread may wait long."""
BUSY, LEAST_S = 0.5, 0.02
"""Part of the time in which a thread that spins runs or has waited for a processor, and seconds that it runs at least:
on a busy machine one that polls waits as well. The kernel counts a wait once it is over."""


async def spins(program: Program) -> bool:
    """Watch it for some seconds. Raises NotApplicable where the kernel counts no times of threads."""
    if not program.threads():
        raise NotApplicable("this kernel counts no times of threads: /proc/PID/schedstat is missing")
    row, before = 0, False
    for _ in range(MOST_ROUNDS):
        busy = await _is_busy(program)
        row, before = (row + 1 if busy == before else 1), busy
        if row == ROUNDS:
            return busy
    return False


async def _is_busy(program: Program) -> bool:
    before, began = program.threads(), time.monotonic()
    await asyncio.sleep(WATCHED_S)
    return most(before, program.threads(), time.monotonic() - began) > LEAST_S


def most(before: Mapping[str, Runnable], now: Mapping[str, Runnable], seconds: float) -> float:
    """Return how long a thread ran that was ready to run for most of the time; 0 if there is none."""
    known = {id: times for id, times in now.items() if id in before}
    spent = [(times.ran - before[id].ran, times.waited - before[id].waited) for id, times in known.items()]
    return max((ran for ran, waited in spent if ran + waited > BUSY * seconds), default=0.0)
