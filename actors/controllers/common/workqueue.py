"""Work by key: each key once at a time, in order of arrival, again later where it failed."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from protocols.kube.errors import ApiAway, ApiError

Key = tuple[str, str]
"""Kind of work and what it is about."""


class Worklist:
    """Bounded by the objects that keys name. A key put while it is worked on is worked on again."""

    def __init__(self, step: Callable[[Key], Awaitable[None]], log: logging.Logger, workers: int = 8) -> None:
        self._step, self._log, self._workers = step, log, workers
        self._retries = Retries()
        self._dirty: OrderedDict[Key, None] = OrderedDict()
        """A plain dict would search past all that was taken from its front for each next one."""
        self._running: set[Key] = set()
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._dirty)

    def put(self, *keys: Key) -> None:
        for key in keys:
            self._dirty.setdefault(key)
        if keys:
            self._wake.set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(self._workers):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            key = next((key for key in self._dirty if key not in self._running), None)
            if key is None:
                self._wake.clear()
                await self._wake.wait()
                continue
            del self._dirty[key]
            self._running.add(key)
            try:
                await self._tend(key)
            finally:
                self._running.discard(key)
                if key in self._dirty:
                    self._wake.set()

    async def _tend(self, key: Key) -> None:
        name = "/".join(key)
        try:
            await self._step(key)
        except (ApiAway, ApiError) as error:
            self._log.info("%s %s: %s", *key, error)
            asyncio.get_running_loop().call_later(self._retries.failed(name), self.put, key)
        else:
            self._retries.done(name)


FIRST_S, MOST_S = 0.5, 10.0


class Retries:
    """Counts tries by name; bounded by the names given, which are forgotten once their work is done."""

    def __init__(self) -> None:
        self._tries: dict[str, int] = {}

    def failed(self, name: str) -> float:
        """Seconds to wait: 0.5, 1, 2, 4, 8, 10, 10 ..."""
        tries = self._tries.get(name, 0)
        self._tries[name] = tries + 1
        return min(MOST_S, FIRST_S * 2.0 ** min(tries, 10))

    def done(self, name: str) -> None:
        self._tries.pop(name, None)
