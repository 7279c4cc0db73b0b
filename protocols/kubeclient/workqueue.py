"""Work queue of a controller: like client-go's rate-limited workqueue.

A key is processed by one worker at a time, in order of arrival; a failed key comes again after a growing delay.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from protocols.kube.errors import ApiAway, ApiError
from protocols.process.rates import backoff_delay
from protocols.process.tasks import failed

K = TypeVar("K", bound=Hashable)
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
        self._retries = Retries[Key](self.put)
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
        await asyncio.gather(*(self._work() for _ in range(self._workers)))

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
        try:
            await self._step(key)
        except (ApiAway, ApiError) as error:
            self._log.info("reconcile failed, will retry kind=%s object=%s error=%s", *key, error)
            self._retries.failed(key)
        except Exception as error:
            self._retries.broken(key, "reconcile", " ".join(key), error)
        else:
            self._retries.done(key)


BASE_DELAY_S, MAX_DELAY_S = 0.5, 10.0
MAX_BROKEN_S = 300.0
"""Longest delay after an unknown exception: the object, or we, must change first, and each attempt is a log line."""


class RetryBackoff:
    """Exponential backoff per key: 0.5, 1, 2, 4, 8 ... seconds. `done` forgets a key."""

    def __init__(self) -> None:
        self._tries: dict[Hashable, int] = {}

    def failed(self, key: Hashable, most: float | None = None) -> float:
        """Return the seconds to wait before the next attempt."""
        tries = self._tries.get(key, 0)
        self._tries[key] = tries + 1
        return backoff_delay(tries + 1, BASE_DELAY_S, most or MAX_DELAY_S)

    def done(self, key: Hashable) -> None:
        self._tries.pop(key, None)


class Retries(Generic[K]):
    """Enqueue failed keys again after their backoff. A key has one timer, however often it fails until then."""

    def __init__(self, enqueue: Callable[[K], None]) -> None:
        self._enqueue = enqueue
        self._backoff = RetryBackoff()
        self._timers: dict[K, asyncio.TimerHandle] = {}

    def failed(self, key: K, most: float | None = None) -> None:
        if key not in self._timers:
            delay = self._backoff.failed(key, most)
            self._timers[key] = asyncio.get_running_loop().call_later(delay, self._expire, key)

    def broken(self, key: K, kind: str, subject: str, error: Exception) -> None:
        """Report an exception that no step should raise, and retry: one object must not end the work for all others."""
        failed(kind, subject, error)
        self.failed(key, MAX_BROKEN_S)

    def done(self, key: K) -> None:
        """Start the delays of a key anew. Its timer goes on: another worker may have failed with newer content."""
        self._backoff.done(key)

    def _expire(self, key: K) -> None:
        del self._timers[key]
        self._enqueue(key)
