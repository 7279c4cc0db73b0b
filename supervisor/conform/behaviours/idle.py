"""The program needs no processor while nothing happens."""

import asyncio
import time
from collections.abc import Mapping

from supervisor.conform.program import Runnable
from supervisor.conform.sources import DOCS
from supervisor.conform.stage import Stage
from supervisor.conform.verdict import Failed, NotApplicable

PHASE = "calls"
RULE = "A plugin waits for calls, changes and the kubelet; it must not take processor time from the pods of the node."
SOURCE = DOCS
ADVICE = "Leave the loop of ListAndWatch when its call ends: one that goes on with a closed channel or context spins."
SETTLE_S, WATCHED_S, ROUNDS, MOST_ROUNDS = 0.5, 1.0, 2, 6
"""So many equal rounds in a row decide: the program may notice the end late, and a thread may wait long."""
BUSY, LEAST_S = 0.5, 0.02
"""Part of the time in which a thread that spins runs or has waited for a processor, and seconds that it runs at least:
on a busy machine one that polls waits as well. The kernel counts a wait once it is over."""


async def run(stage: Stage) -> None:
    """Open lists, hang up, and watch the threads."""
    for plugin in await stage.plugins():
        another = plugin.another()
        try:
            await another.first_list()
        finally:
            await another.close()
    await asyncio.sleep(SETTLE_S)
    if not stage.program.threads():
        raise NotApplicable("this kernel counts no times of threads: /proc/PID/schedstat is missing")
    row, before = 0, False
    for _ in range(MOST_ROUNDS):
        busy = await _is_busy(stage)
        row, before = (row + 1 if busy == before else 1), busy
        if row == ROUNDS and not busy:
            return
        if row == ROUNDS:
            watched = ROUNDS * WATCHED_S
            raise Failed(f"a thread was never idle within {watched:g} s after a ListAndWatch had ended: it spins")


async def _is_busy(stage: Stage) -> bool:
    before, began = stage.program.threads(), time.monotonic()
    await asyncio.sleep(WATCHED_S)
    return most(before, stage.program.threads(), time.monotonic() - began) > LEAST_S


def most(before: Mapping[str, Runnable], now: Mapping[str, Runnable], seconds: float) -> float:
    """Return how long a thread ran that was ready to run for most of the time; 0 if there is none."""
    known = {id: times for id, times in now.items() if id in before}
    spent = [(times.ran - before[id].ran, times.waited - before[id].waited) for id, times in known.items()]
    return max((ran for ran, waited in spent if ran + waited > BUSY * seconds), default=0.0)
