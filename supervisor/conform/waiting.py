"""Wait until something holds that others change."""

import asyncio
import contextlib
import time
from collections.abc import Callable

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
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left, POLL_S)):  # wait_for may lose the end of its task
                    await self._changed.wait()
        return True
