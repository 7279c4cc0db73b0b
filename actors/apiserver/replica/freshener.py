"""Asks the watch cache to come to a revision at once, when somebody waits for it."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress

from actors.apiserver.replica.replica import FRESH_TIMEOUT
from protocols.bus import Bus
from protocols.errors import NodeplaneError
from protocols.messages.objects import FRESHEN, OWNER, Freshen
from protocols.messages.supervisor import Empty

Spawn = Callable[[Coroutine[None, None, None], str], asyncio.Task[None]]


class Freshener:
    """For one store: one question at a time is enough, about the highest revision wanted."""

    def __init__(self, bus: Bus, store: int, spawn: Spawn) -> None:
        self._bus, self._store, self._spawn = bus, store, spawn
        self._wanted = 0
        self._asking: asyncio.Task[None] | None = None

    def nudge(self, revision: int) -> None:
        idle = self._asking is None or self._asking.done()
        self._wanted = revision if idle else max(self._wanted, revision)
        if idle:
            self._asking = self._spawn(self._ask(), "freshen")

    async def _ask(self) -> None:
        asked = 0
        while asked < self._wanted:
            asked = self._wanted
            question = Freshen(asked, self._store)
            with suppress(NodeplaneError):
                await self._bus.call(OWNER, FRESHEN, question, Empty, timeout=FRESH_TIMEOUT)
