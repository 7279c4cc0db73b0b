"""Background compaction: by age, number of revisions and quota, and on request."""

import asyncio
import logging
import time
from functools import partial

from actors.store.engine.core import Core
from actors.store.file import upkeep
from actors.store.model.errors import Stopped, StoreError
from actors.store.mvcc.operations import compact
from actors.store.mvcc.retention import PRESSURE_HISTORY, Retention
from protocols.process.tasks import wait_set

log = logging.getLogger("store")


class Compactor:
    """Compacts periodically and when woken, then sweeps compacted rows."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._retention = Retention(core.options)
        self._wake = asyncio.Event()
        self._failure = ""
        """Error of the last compaction; empty if it succeeded."""
        core.writer.on_pressure = self._on_pressure

    def wake(self) -> None:
        self._wake.set()

    def _on_pressure(self) -> None:
        """Wake under pressure of the quota, but not with each commit unless it is exceeded."""
        index, quota = self._core.index, self._core.writer.quota
        if quota.exceeded or index.revision - index.compacted >= 2 * PRESSURE_HISTORY:
            self._wake.set()

    async def run(self) -> None:
        # At start, sweep rows that a killed process left.
        self.wake()
        while True:
            await wait_set(self._wake, self._core.options.compact_every)
            self._wake.clear()
            try:
                await self._compact()
                await self.sweep()
                self._failure = ""
            except StoreError as error:  # a full disk or a damaged page: the next period tries again
                self._failed(error)

    def _failed(self, error: StoreError) -> None:
        if str(error) != self._failure and not isinstance(error, Stopped):  # once per error, not once per try
            log.error("compaction failed, history grows error=%s", error)
        self._failure = str(error)

    async def _compact(self) -> None:
        index = self._core.index
        most = self._core.writer.quota.history(self._core.options.history_max_revisions)
        target = self._retention.target(time.monotonic(), index.revision, most)
        if target > index.compacted:
            await self._core.writer.submit(partial(compact, target))

    async def sweep(self) -> None:
        """Remove compacted rows step by step, between writes; raise StoreError if the file cannot be written."""
        more = True
        while more:
            more = await self._core.writer.in_thread(upkeep.sweep)
