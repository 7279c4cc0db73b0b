"""Blocks its event loop for ever when it gets SIGUSR1, as a bug would."""

import signal
import time

from protocols.actor import Context, run_actor


class Stoppable:
    def __init__(self, context: Context) -> None:
        self.context = context

    async def start(self) -> None:
        signal.signal(signal.SIGUSR1, lambda _number, _frame: time.sleep(1000))
        self.context.ready()

    async def stop(self) -> None:
        pass


def main(argv: list[str] | None = None) -> None:
    run_actor("stoppable", Stoppable, argv)
