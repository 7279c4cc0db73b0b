"""Work queue of the controllers: like client-go's rate-limited workqueue.

A key is processed by one worker at a time, in order of arrival; a failed key comes again after a growing delay.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from protocols.kube.errors import ApiAway, ApiError
from protocols.process.rates import backoff_delay

Key = tuple[str, str]
"""Kind of work and name of its object."""
LONGEST_S = 3600.0
"""Longest timer: a key that is due later comes earlier, and its worker sets the timer again."""


class WorkQueue:
    """Keys waiting for a worker.

    Memory is bounded by the number of objects that keys name. A key added while it is processed is processed again.
    """

    def __init__(self, step: Callable[[Key], Awaitable[None]], log: logging.Logger, workers: int = 8) -> None:
        self._step, self._log, self._workers = step, log, workers
        self._retries = RetryBackoff()
        self._dirty: OrderedDict[Key, None] = OrderedDict()
        # Not a plain dict: finding its first key scans past every slot freed at its front.
        self._running: set[Key] = set()
        self._wake = asyncio.Event()
        self._timers: dict[Key, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        return len(self._dirty)

    def put(self, *keys: Key) -> None:
        for key in keys:
            self._dirty.setdefault(key)
        if keys:
            self._wake.set()

    def put_later(self, key: Key, seconds: float) -> None:
        """Add the key after so many seconds; replaces its earlier timer."""
        self.cancel_timer(key)
        loop = asyncio.get_running_loop()
        self._timers[key] = loop.call_later(min(seconds, LONGEST_S), self._expire, key)

    def cancel_timer(self, key: Key) -> None:
        if timer := self._timers.pop(key, None):
            timer.cancel()

    def _expire(self, key: Key) -> None:
        self._timers.pop(key, None)
        self.put(key)

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
                await self._process(key)
            finally:
                self._running.discard(key)
                if key in self._dirty:
                    self._wake.set()

    async def _process(self, key: Key) -> None:
        name = "/".join(key)
        try:
            await self._step(key)
        except (ApiAway, ApiError) as error:
            self._log.info("reconcile failed, will retry kind=%s object=%s error=%s", *key, error)
            asyncio.get_running_loop().call_later(self._retries.failed(name), self.put, key)
        else:
            self._retries.done(name)


BASE_DELAY_S, MAX_DELAY_S = 0.5, 10.0


class RetryBackoff:
    """Exponential backoff per name: 0.5, 1, 2, 4, 8, 10, 10 ... seconds. `done` forgets a name."""

    def __init__(self) -> None:
        self._tries: dict[str, int] = {}

    def failed(self, name: str) -> float:
        """Return the seconds to wait before the next attempt."""
        tries = self._tries.get(name, 0)
        self._tries[name] = tries + 1
        return backoff_delay(tries + 1, BASE_DELAY_S, MAX_DELAY_S)

    def done(self, name: str) -> None:
        self._tries.pop(name, None)
