"""After a start without memory: what runs claims its devices before anybody else gets some."""

import asyncio
import time
from contextlib import suppress

from actors.devices.types import Limits


class Claiming:
    """Over at once when nothing was lost; else some time after podworker has told which pods there are."""

    def __init__(self, lost: bool, limits: Limits) -> None:
        self._limits = limits
        self._until = time.monotonic() + limits.claiming if lost else 0.0
        self._sooner = asyncio.Event()

    def told(self) -> None:
        """podworker knows every pod of the node, and asks for those that run."""
        self._until = min(self._until, time.monotonic() + self._limits.claimed)
        self._sooner.set()

    async def over(self) -> None:
        while (left := self._until - time.monotonic()) > 0:
            self._sooner.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._sooner.wait()
