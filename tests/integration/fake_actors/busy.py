"""Holds its event loop: SIGUSR1 works for WORK_S and goes on, SIGUSR2 works for ever, and its stall is on record."""

import os
import signal
import time

from protocols.actor import Context, run_actor
from protocols.process import stalls
from protocols.process.stalls import Stall

WORK_S = 3.5
CYCLE_S, WORKING_S = 0.05, 0.02
"""Works for 2 of 5 parts of the time, more than what counts as working: the tests beside this one need a processor."""


class Busy:
    def __init__(self, context: Context) -> None:
        self.context = context

    async def start(self) -> None:
        signal.signal(signal.SIGUSR1, lambda _number, _frame: self.work(WORK_S))
        signal.signal(signal.SIGUSR2, lambda _number, _frame: self.work_for_ever())
        self.context.ready()

    async def stop(self) -> None:
        pass

    def work(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            begun = time.thread_time()
            while time.thread_time() - begun < WORKING_S:  # on a busy machine, it waits for a processor as it would
                pass
            time.sleep(CYCLE_S - WORKING_S)
        self.context.log.warning("worked")

    def work_for_ever(self) -> None:
        stall = Stall(self.context.instance, os.getpid(), time.time(), "user='mallory'\nverb=list")
        stalls.write(self.context.layout.run, stall)
        self.work(float("inf"))


def main(argv: list[str] | None = None) -> None:
    run_actor("busy", Busy, argv)
