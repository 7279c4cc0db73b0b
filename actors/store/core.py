"""The parts of a running store, put together: opened once, shared by the services."""

import asyncio
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from actors.store.errors import Compacted, FutureRevision
from actors.store.history import PastView, open_reader
from actors.store.hub import Hub
from actors.store.index import Index
from actors.store.leases import Leases
from actors.store.log import ObjectLog
from actors.store.options import StoreOptions
from actors.store.types import Commit
from actors.store.writer import Writer
from protocols.wire import etcd_pb2 as pb

T = TypeVar("T")


class Core:
    """The index and leases in memory, the log and its two threads (one writes, one reads the past), the watch hub."""

    def __init__(self, options: StoreOptions) -> None:
        """Opens or creates the file. Raises StoreCorrupt, StoreUnusable."""
        self.options = options
        self.address = ""
        """Where TCP clients come, once that is known."""
        self.log = ObjectLog(options)
        loaded = self.log.open()
        self.cluster_id, self.member_id = loaded.cluster_id, loaded.member_id
        self.index = Index(loaded.current, loaded.revision, loaded.compacted)
        self.leases = Leases()
        self.leases.load(loaded.leases, loaded.current, time.monotonic())
        self.leases_changed = asyncio.Event()
        self.hub = Hub(options, loaded.revision, loaded.compacted)
        self.writer = Writer(options, self.log, self.index, self.leases, self._committed)
        self._reader = open_reader(options.file)
        self._reading = ThreadPoolExecutor(1, "store-reader")

    def _committed(self, commit: Commit) -> None:
        if commit.leases:
            self.leases_changed.set()
        self.hub.publish(commit.changes, self.index.revision, self.index.compacted)

    def header(self, revision: int | None = None) -> pb.ResponseHeader:
        return pb.ResponseHeader(
            cluster_id=self.cluster_id,
            member_id=self.member_id,
            revision=self.index.revision if revision is None else revision,
            raft_term=1,
        )

    def check_revision(self, revision: int) -> None:
        """Raises Compacted, FutureRevision."""
        if revision > self.index.revision:
            raise FutureRevision()
        if 0 < revision < self.index.compacted:
            raise Compacted()

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run a read of the past in its thread."""
        return await asyncio.get_running_loop().run_in_executor(self._reading, work, self._reader)

    def past(self, revision: int) -> PastView:
        """History for the writer thread, over its own connection."""
        return PastView(self.log.db, revision)

    async def close(self) -> None:
        """Readers first: then the writer's last checkpoint is alone."""
        await asyncio.get_running_loop().run_in_executor(self._reading, self._reader.close)
        self._reading.shutdown(wait=False)
        await self.writer.stop()
