"""Compaction: on request, and by age and number by itself."""

import asyncio
import time
from collections import deque
from contextlib import suppress
from functools import partial

from actors.store import upkeep
from actors.store.core import Core
from actors.store.draft import Draft
from actors.store.errors import Compacted, FutureRevision, StoreError
from actors.store.options import StoreOptions
from actors.store.quota import PRESSED_HISTORY


def compact(revision: int, draft: Draft) -> None:
    """Forget what only revisions below `revision` can see. Raises Compacted, FutureRevision."""
    if revision > draft.revision:
        raise FutureRevision()
    if revision <= draft.compacted:
        raise Compacted()
    draft.compacted = revision


class Retention:
    """Decides, from a sample of the revision now and then, how far to compact. Pure."""

    def __init__(self, options: StoreOptions) -> None:
        self._options = options
        self._samples: deque[tuple[float, int]] = deque()

    def target(self, now: float, revision: int, most: int | None = None) -> int:
        """The revision to compact to; 0 or an old one when there is nothing to do. `most`: revisions that may be kept
        while space is short."""
        self._samples.append((now, revision))
        aged = 0
        while self._samples and self._samples[0][0] <= now - self._options.history_seconds:
            aged = self._samples[0][1]
            if len(self._samples) > 1 and self._samples[1][0] > now - self._options.history_seconds:
                break
            self._samples.popleft()
        by_age = min(aged, revision - self._options.history_least)
        return max(by_age, revision - (self._options.history_most if most is None else most))


class Compactor:
    """Runs in the background; asleep unless compaction was asked for or its period is over."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._retention = Retention(core.options)
        self._wake = asyncio.Event()
        core.writer.on_pressure = self._wake_pressed

    def wake(self) -> None:
        self._wake.set()

    def _wake_pressed(self) -> None:
        """The quota is near: not with each commit, unless it is exceeded."""
        index, quota = self._core.index, self._core.writer.quota
        if quota.exceeded or index.revision - index.compacted >= 2 * PRESSED_HISTORY:
            self._wake.set()

    async def run(self) -> None:
        # What a killed predecessor left unswept is swept at start.
        self.wake()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._core.options.compact_every):
                    await self._wake.wait()
            self._wake.clear()
            with suppress(StoreError):  # a full disk: the next period tries again
                await self._compact()
                await self.sweep()

    async def _compact(self) -> None:
        index = self._core.index
        most = self._core.writer.quota.history(self._core.options.history_most)
        target = self._retention.target(time.monotonic(), index.revision, most)
        if target > index.compacted:
            await self._core.writer.submit(partial(compact, target))

    async def sweep(self) -> None:
        """Remove compacted rows step by step, between the writes. Raises StoreError."""
        more = True
        while more:
            more = await self._core.writer.in_thread(upkeep.sweep)
