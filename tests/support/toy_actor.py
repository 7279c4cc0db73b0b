"""The smallest actor, for tests of the shell; what it does wrong is in TOY."""

import asyncio
import os

from protocols.actor import Context, PlainCounter, run_actor
from protocols.bus import StateSource


class Toy:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._fault = os.environ.get("TOY", "")
        self._count = PlainCounter("toy_count", "Starts.", ["kind"], registry=context.registry)

    async def start(self) -> None:
        self._context.bus.own("toys", StateSource({}))
        self._count.labels("all").inc()
        if self._fault == "start":
            raise ValueError("cannot\nstart")
        if self._fault == "task":
            self._context.spawn(self._break(), "breaker")
        if self._fault in ("memory", "callback"):
            asyncio.get_running_loop().call_soon(
                self._raise, MemoryError() if self._fault == "memory" else ValueError("x")
            )
        if self._fault == "slow":
            await asyncio.sleep(30)
        self._context.ready("plays")

    async def stop(self) -> None:
        if self._fault == "stop":
            raise ValueError("cannot stop")
        self._context.log.info("stopped orderly")

    def _raise(self, error: Exception) -> None:
        raise error

    async def _break(self) -> None:
        raise ValueError("broken")


if __name__ == "__main__":
    run_actor("toy", Toy)
