"""One lock per name, kept only while somebody holds it or waits for it."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager


class Locks:
    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._users: dict[str, int] = {}

    @asynccontextmanager
    async def hold(self, names: Iterable[str]) -> AsyncIterator[None]:
        """All of them, always in the same order, so nobody waits in a circle."""
        mine, held = sorted(set(names)), []
        for name in mine:
            self._users[name] = self._users.get(name, 0) + 1
        try:
            for name in mine:
                await self._locks.setdefault(name, asyncio.Lock()).acquire()
                held.append(name)
            yield
        finally:
            for name in held:
                self._locks[name].release()
            for name in mine:
                self._leave(name)

    def _leave(self, name: str) -> None:
        self._users[name] -= 1
        if not self._users[name]:
            del self._users[name]
            self._locks.pop(name, None)
