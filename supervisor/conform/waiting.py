"""Wait until something holds that others change."""

import asyncio
import time
from collections.abc import Callable

from protocols.process.tasks import wait_set

POLL_S = 0.1
"""Time after which `over` is asked again."""


class ChangeSignal:
    """Whoever changes something calls `notify`."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    def notify(self) -> None:
        self._changed.set()

    async def until(self, holds: Callable[[], bool], seconds: float, over: Callable[[], bool] = lambda: False) -> bool:
        """Wait until it holds; return False if it does not in time, or is over."""
        deadline = time.monotonic() + seconds
        while not holds():
            self._changed.clear()
            if over() or (left := deadline - time.monotonic()) <= 0:
                return False
            await wait_set(self._changed, min(left, POLL_S))
        return True
