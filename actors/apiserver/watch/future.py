"""Watches that begin at a revision this process has not seen yet.

Usually another process was ahead for a moment. When the store itself has not come to that revision after a while, the
client's revision is of a history that was replaced: its watch would stay silent, so it ends with 410.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from actors.apiserver.api.resource import Resource
from actors.apiserver.watch.hub import Hub
from actors.apiserver.watch.watcher import Watcher
from protocols.errors import NodeplaneError

PATIENCE_S = 2.0
"""Seconds after which the store is asked."""

Reached = Callable[[Resource, int], Awaitable[bool]]
"""True when the store that holds the resource has come to the revision. Raises NodeplaneError while it is away."""


class FutureWatches:
    """Memory is bounded by the number of open watches."""

    def __init__(self, reached: Reached) -> None:
        self._reached = reached
        self._waiting: dict[Watcher, Hub] = {}
        self._checking: asyncio.Task[None] | None = None

    def add(self, hub: Hub, watcher: Watcher) -> None:
        if watcher.start <= hub.replica.mark:
            return
        self._waiting[watcher] = hub
        if self._checking is None or self._checking.done():
            self._checking = asyncio.get_running_loop().create_task(self._run())

    def close(self) -> None:
        if self._checking is not None:
            self._checking.cancel()

    async def _run(self) -> None:
        while self._waiting:
            await asyncio.sleep(PATIENCE_S)
            for watcher, hub in tuple(self._waiting.items()):
                with suppress(NodeplaneError):
                    if not await self._stays(watcher, hub):
                        del self._waiting[watcher]

    async def _stays(self, watcher: Watcher, hub: Hub) -> bool:
        """False once nothing is to be waited for; the watch may be over then."""
        if watcher.done or watcher.start <= hub.replica.mark:
            return False
        if not await self._reached(hub.resource, watcher.start):
            hub.expire(watcher)
            return False
        return True
