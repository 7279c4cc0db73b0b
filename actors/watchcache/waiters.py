"""Who waits for the cache to reach a revision."""

import asyncio


class Waiters:
    """Futures by revision; bounded by the bus's own limit on running calls."""

    def __init__(self) -> None:
        self._waiting: set[tuple[int, asyncio.Future[None]]] = set()
        self.any = asyncio.Event()
        """Set while someone waits."""

    async def wait(self, revision: int, timeout: float) -> bool:
        """False when it did not come in time."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (revision, future)
        self._waiting.add(entry)
        self.any.set()
        try:
            await asyncio.wait_for(future, timeout)
        except TimeoutError:
            return False
        finally:
            self._drop(entry)
        return True

    def _drop(self, entry: tuple[int, asyncio.Future[None]]) -> None:
        self._waiting.discard(entry)
        if not self._waiting:
            self.any.clear()

    def advance(self, revision: int) -> None:
        for wanted, future in self._waiting:
            if wanted <= revision and not future.done():
                future.set_result(None)
