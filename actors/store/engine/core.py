"""The parts of a running store that the services share, and their metrics."""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from prometheus_client import Metric
from prometheus_client.registry import Collector

from actors.store.engine.writer import Writer
from actors.store.file.history import PastView, open_reader
from actors.store.file.object_log import ObjectLog
from actors.store.model.errors import Compacted, FutureRevision, HistoryDamaged
from actors.store.model.options import StoreOptions
from actors.store.model.types import Commit
from actors.store.mvcc.index import KeyIndex
from actors.store.mvcc.lease_table import LeaseTable
from actors.store.watch.hub import WatchHub
from protocols.actor.metrics import single
from protocols.process.families import CounterFamily, GaugeFamily
from protocols.process.tasks import Threads
from protocols.wire import etcd_pb2 as pb

T = TypeVar("T")


class Core:
    """Index and leases in memory, the log with a writer and a reader thread, and the watch hub.

    The constructor opens or creates the file; it raises StoreCorrupt or StoreUnusable.
    """

    def __init__(self, options: StoreOptions) -> None:
        self.options = options
        self.address = ""
        """The TCP address, once it is known."""
        self.log = ObjectLog(options)
        loaded = self.log.open()
        self.cluster_id, self.member_id = loaded.cluster_id, loaded.member_id
        self.index = KeyIndex(loaded.current, loaded.revision, loaded.compacted)
        self.leases = LeaseTable()
        self.leases.load(loaded.leases, loaded.current, time.monotonic())
        self.leases_changed = asyncio.Event()
        self.hub = WatchHub(options, loaded.revision, loaded.compacted)
        self.writer = Writer(options, self.log, self.index, self.leases, self._committed)
        self._reader = open_reader(options.file)
        self._reading = Threads("store-reader")

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
        """Raise Compacted or FutureRevision for a revision that cannot be read."""
        if revision > self.index.revision:
            raise FutureRevision()
        if 0 < revision < self.index.compacted:
            raise Compacted()

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run a read of history in the reader thread. Raises HistoryDamaged."""
        try:
            return await self._reading.run(work, self._reader)
        except sqlite3.DatabaseError as error:
            raise HistoryDamaged(f"{HistoryDamaged.text}: the store's file cannot be read: {error}") from None

    def past(self, revision: int) -> PastView:
        """Return a past revision for the writer thread, on its own connection."""
        return PastView(self.log.db, revision)

    async def close(self) -> None:
        # Close the reader first, so that the writer's last checkpoint can truncate the WAL.
        await self._reading.run(self._reader.close)
        self._reading.close()
        await self.writer.stop()


REVISION = GaugeFamily("nodeplane_store_revision", "Current revision of the store.")
COMPACTED = GaugeFamily("nodeplane_store_compact_revision", "Oldest revision that can be read.")
KEYS = GaugeFamily("nodeplane_store_keys", "Live keys of the store.")
USED = GaugeFamily("nodeplane_store_used_bytes", "Bytes of the store's file in use.")
QUOTA = GaugeFamily("nodeplane_store_quota_bytes", "Quota of the bytes in use; 0 is none.")
WATCHERS = GaugeFamily("nodeplane_store_watchers", "Open watches of the store.")
LEASES = GaugeFamily("nodeplane_store_leases", "Live leases of the store.")
COMMITS = CounterFamily("nodeplane_store_commits_total", "Commits that were written to the store's file.")
COMMIT_FAILURES = CounterFamily("nodeplane_store_commit_failures_total", "Commits to the store's file that failed.")
CHECKPOINT_FAILURES = CounterFamily(
    "nodeplane_store_checkpoint_failures_total",
    "Checkpoints that failed; the write-ahead log grows until one succeeds.",
)


class StoreCollector(Collector):
    """Metrics of the store, computed at scrape time."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def collect(self) -> Iterator[Metric]:
        core = self._core
        yield single(REVISION, core.index.revision)
        yield single(COMPACTED, core.index.compacted)
        yield single(KEYS, len(core.index))
        yield single(USED, core.writer.quota.used)
        yield single(QUOTA, core.options.quota_bytes)
        yield single(WATCHERS, core.hub.watchers)
        yield single(LEASES, len(core.leases.ids()))
        yield single(COMMITS, core.writer.commits)
        yield single(COMMIT_FAILURES, core.writer.failures)
        yield single(CHECKPOINT_FAILURES, core.writer.checkpoint_failures)
