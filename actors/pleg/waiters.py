"""Who waits for a pod's status later than a time (GetNewerThan), woken whenever knowledge moves."""

import asyncio
from collections import defaultdict
from collections.abc import Callable


class Waiters:
    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Future[None]]] = defaultdict(set)

    def wake(self, uid: str) -> None:
        for future in self._waiting.pop(uid, set()):
            if not future.done():
                future.set_result(None)

    def wake_all(self) -> None:
        for uid in list(self._waiting):
            self.wake(uid)

    async def until(self, uid: str, holds: Callable[[], bool], timeout: float) -> bool:
        """Wait until `holds()`; False when that did not come about within `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                while not holds():
                    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    self._waiting[uid].add(future)
                    await future
        except TimeoutError:
            return holds()
        return True
