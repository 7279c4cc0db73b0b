"""Keep the state current with the store: list once, then follow one watch, reopened where it broke.

- After a compaction beyond our position the store is listed again; if anything changed, its streams begin anew.
- Each new watch begins in the past, to check that the store still has the history applied here.
- Changes that arrive together are taken and published together (BatchingWindow).
- Progress is requested when the store is silent, and often while a caller waits for a revision.
"""

import asyncio
import logging
import re
import time
from collections.abc import Callable
from itertools import count
from typing import Protocol

from actors.watchcache.cache.history_check import HistoryCheck, HistoryLost
from actors.watchcache.cache.options import WatchcacheOptions
from actors.watchcache.cache.store_state import PublishedEvent, StoreState
from protocols.errors import NodeplaneError
from protocols.etcd.client import EtcdClient
from protocols.etcd.errors import AnswerTooLarge, Compacted, DeadlineExceeded, EtcdError
from protocols.etcd.paging import PagedListing
from protocols.etcd.types import KeyValue, Ranged, WatchBatch
from protocols.etcd.watch import Watch
from protocols.process.rates import backoff_delay
from protocols.process.tasks import wait_set


class StoreTooOld(NodeplaneError, grpc="FAILED_PRECONDITION"):
    """Raised at start when the etcd version is known to lose acknowledged writes."""


Version = tuple[int, int, int]


def parse_version(text: str) -> Version:
    """Parse `3.5.13` or `3.6.0-rc.1`; anything else counts as the oldest version."""
    match = re.match(r"(\d+)\.(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2]), int(match[3])) if match else (0, 0, 0)


def reject_lossy_version(text: str) -> None:
    """Raise StoreTooOld for versions that can lose acknowledged writes when they are killed."""
    version = parse_version(text)
    if version < (3, 4, 21) or (3, 5, 0) <= version < (3, 5, 6):
        raise StoreTooOld(f"etcd {text} can lose acknowledged writes in a crash; use 3.4.21, 3.5.6, 3.6 or newer")


def answers_in_order(text: str) -> bool:
    """Return True if requested progress comes after the events it covers.

    Other versions send the store's revision at once, even to a watch that is still catching up; using it would lose
    events.
    """
    version = parse_version(text)
    return version >= (3, 5, 13) or (3, 4, 31) <= version < (3, 5, 0)


BUSY_BATCH = 3
"""Changes taken at once from which the window doubles; below it the window halves."""


class BatchingWindow:
    """The time for which changes wait so that more are taken together; grows with load. Pure; seconds.

    Most of the cost of a change is waking followers, and sending it alone at the store. A lone change is not
    delayed.
    """

    def __init__(self, shortest: float, longest: float) -> None:
        self._shortest, self._longest = shortest, longest
        self._wait = self._resumed = 0.0

    def after(self, taken: int, now: float) -> float:
        """Return the seconds to leave further changes in the kernel, after `taken` changes were taken at `now`."""
        if now - self._resumed >= 1.5 * self._shortest:
            self._wait = 0.0
        elif self._wait and taken >= BUSY_BATCH:
            self._wait = min(2 * self._wait, self._longest)
        else:
            self._wait = max(self._wait / 2, self._shortest)
        self._resumed = now + self._wait
        return self._wait


class RevisionWaiters:
    """Calls that wait for the cache to reach a revision; bounded by the bus's limit of running calls."""

    def __init__(self, on_wait: Callable[[], None]) -> None:
        """`on_wait` is called when a caller begins to wait."""
        self._waiting: set[tuple[int, asyncio.Future[None]]] = set()
        self._on_wait = on_wait
        self.any = asyncio.Event()
        """Set while a caller waits."""

    async def wait(self, revision: int, timeout: float) -> bool:
        """Wait until the cache reaches `revision`; return False after `timeout` seconds."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (revision, future)
        self._waiting.add(entry)
        self.any.set()
        self._on_wait()
        try:
            async with asyncio.timeout(timeout):
                await future
        except TimeoutError:
            return False
        finally:
            self._drop(entry)
        return True

    def _drop(self, entry: tuple[int, asyncio.Future[None]]) -> None:
        self._waiting.discard(entry)
        if not self._waiting:
            self.any.clear()

    def advance(self, revision: int) -> None:
        for wanted, future in self._waiting:
            if wanted <= revision and not future.done():
                future.set_result(None)


log = logging.getLogger("watchcache")

MAX_BATCHES = 64
"""Most batches taken at once."""


class _FollowerListener(Protocol):
    def publish(self, changes: list[PublishedEvent]) -> None:
        """Called after every batch once the state is complete; the first call has no changes."""

    def begin_anew(self) -> None:
        """Called when a list took the place of the published state: followers need snapshots."""

    def on_unavailable(self, why: str) -> None:
        """Called with the reason why the store cannot be followed; empty once it can."""


class StoreFollower:
    """Follows one store; `run` is its only task."""

    def __init__(
        self, options: WatchcacheOptions, client: EtcdClient, state: StoreState, listener: _FollowerListener
    ) -> None:
        self._options, self._client, self._state = options, client, state
        self._publish, self._on_unavailable = listener.publish, listener.on_unavailable
        self._begin_anew = listener.begin_anew
        self._watch: Watch | None = None
        self._open = asyncio.Event()
        self._batching = BatchingWindow(options.batch_wait, options.batch_wait_max)
        self._window_over = asyncio.Event()
        self._last_message = 0.0
        self._in_order = True
        self._published = False
        self._proof = HistoryCheck({}, 0)
        self.waiters = RevisionWaiters(self._window_over.set)
        self.reconnects = 0

    async def run(self) -> None:
        """Follow the store until cancelled.

        Raises:
            HistoryLost: The store was restored or replaced.
            StoreTooOld: Its version can lose acknowledged writes.
        """
        await self._check_version()
        self._state.load(*await self._list_store(), self._in_order)
        failures = 0
        while True:
            before = self._state.position
            try:
                await self._follow()
            except Compacted as error:
                await self._on_compacted(error)
                continue
            except EtcdError as error:
                log.warning("store watch broke, will reopen error=%s", error)
                self._on_unavailable(str(error))
            self.reconnects += 1
            failures = 1 if self._state.position > before else failures + 1
            await asyncio.sleep(self._backoff(failures))

    async def _check_version(self) -> None:
        """Read the members' versions, waiting as long as none answers; the oldest one counts."""
        for failures in count(1):
            try:
                version = min((status.version for status in await self._client.statuses()), key=parse_version)
                break
            except EtcdError as error:
                log.warning("store version not read, will retry error=%s", error)
                self._on_unavailable(str(error))
            await asyncio.sleep(self._backoff(failures))
        reject_lossy_version(version)
        self._in_order = answers_in_order(version)
        if not self._in_order:
            log.warning("etcd answers progress requests out of order, uses its notifications only version=%s", version)

    async def _list_store(self) -> tuple[list[KeyValue], int]:
        """Read every key at one revision, waiting as long as the store is unavailable.

        A page that fails is read again with fewer keys. If the revision is compacted meanwhile, the list begins again.
        """
        listing, failures = PagedListing(self._options.prefix), 0
        while not listing.complete:
            try:
                listing.took(await self._page(listing))
                failures = 0
                continue
            except Compacted as error:
                listing = PagedListing(self._options.prefix)
                self._list_failed(error)
            except (AnswerTooLarge, DeadlineExceeded) as error:
                self._list_failed(error)
                if listing.pager.failed():
                    continue
            except EtcdError as error:
                self._list_failed(error)
            failures += 1
            await asyncio.sleep(self._backoff(failures))
        return listing.kvs, listing.revision

    def _backoff(self, failures: int) -> float:
        return backoff_delay(failures, self._options.first_backoff, self._options.max_backoff)

    async def _page(self, listing: PagedListing) -> Ranged:
        return await self._client.range(listing.prefix, listing.start, listing.pager.limit, listing.revision)

    def _list_failed(self, error: EtcdError) -> None:
        log.warning("store not listed, will retry error=%s", error)
        self._on_unavailable(str(error))

    async def _follow(self) -> None:
        self._proof = self._state.recent.proof(self._state.position)
        start = self._proof.start
        async with self._client.watch(self._prefix, start, progress_notify=self._options.efficient_resumption) as watch:
            await self._check_same(watch)
            self._watch, self._last_message = watch, time.monotonic()
            self._open.set()
            self._on_unavailable("")
            self._publish_first()
            try:
                if self._requests_progress:
                    await watch.request_progress()
                await self._take_batches(watch)
            finally:
                self._watch = None
                self._open.clear()

    async def _take_batches(self, watch: Watch) -> None:
        """Take and publish batches that arrived together at once, so that followers wake once for all."""
        batches: list[WatchBatch] = []
        try:
            async for batch in watch:
                batches.append(batch)
                if watch.more and len(batches) < MAX_BATCHES:
                    continue
                together, batches = batches, []
                self._take(together)
                if not watch.more:
                    await self._wait_for_batch(watch, sum([len(pending.events) for pending in together]))
        finally:
            self._take(batches)

    async def _wait_for_batch(self, watch: Watch, taken: int) -> None:
        """Hold the watch for the batching window, unless a caller waits for a revision."""
        seconds = self._batching.after(taken, time.monotonic())
        if not seconds or self.waiters.any.is_set():
            return
        watch.hold()
        self._window_over.clear()
        timer = asyncio.get_running_loop().call_later(seconds, self._window_over.set)
        try:
            await self._window_over.wait()
        finally:
            timer.cancel()

    @property
    def _prefix(self) -> bytes:
        """The watched prefix: every key if progress cannot be requested, so that each revision comes as an event."""
        return self._options.prefix if self._in_order or not self._options.efficient_resumption else b""

    @property
    def _requests_progress(self) -> bool:
        return self._in_order and self._options.efficient_resumption

    async def _check_same(self, watch: Watch) -> None:
        """Raise HistoryLost if the store is behind this cache. A single member of a cluster may be, the cluster not."""
        seen = max(self._state.position, self._state.listed_revision)
        if watch.revision >= seen:
            return
        revision = await self._client.current_revision(self._options.prefix)
        if revision < seen:
            raise HistoryLost(f"the store is at revision {revision}, this cache has seen {seen} of it")

    def _take(self, batches: list[WatchBatch]) -> None:
        # Take and publish without await: a snapshot taken between would contain changes that are published again.
        state, changes = self._state, list[PublishedEvent]()
        before = state.position
        self._last_message = time.monotonic()
        for batch in batches:
            if not self._proof.passed:
                self._check_history(batch)
            events = state.take(batch, self._last_message)
            if self._published:
                changes += events
            else:
                self._publish_first()
        if self._published and (changes or state.position != before):
            self._publish(changes)
            self.waiters.advance(state.position)

    def _check_history(self, batch: WatchBatch) -> None:
        difference = self._proof.contradiction(batch.revision, batch.events)
        if difference:
            raise HistoryLost(f"the store's history was replaced, as by a restored backup: {difference}; starting anew")

    def _publish_first(self) -> None:
        """Publish for the first time, once the state is complete; snapshots contain all changes so far."""
        if not self._published and self._state.complete:
            self._published = True
            self._publish([])
            self.waiters.advance(self._state.position)

    async def _on_compacted(self, error: Compacted) -> None:
        """Handle a compacted position: shorten windows that are being filled, otherwise list again."""
        state = self._state
        if not state.complete and error.compact_revision <= state.listed_revision:
            state.skip_to(error.compact_revision)
            return
        if 0 < error.compact_revision <= state.position and len(state.recent):
            state.recent.forget_up_to(error.compact_revision)  # only revisions for the history check are compacted
            return
        log.warning("watch position compacted, listing again error=%s", error)
        kvs, revision = await self._list_store()
        if not self._published:
            state.load(kvs, revision, self._in_order)
            return
        if difference := state.contradicted(kvs, revision):
            raise HistoryLost(f"the store's history was replaced, as by a restored backup: {difference}; starting anew")
        if state.replace(kvs, revision):
            self._begin_anew()
        else:
            self._publish([])
        self.waiters.advance(state.position)

    async def poll_progress(self) -> None:
        """Request progress: often while the state is incomplete or a caller waits, rarely when the store is silent."""
        while True:
            await self._open.wait()
            if not self._requests_progress:
                return  # silence is normal then; only the connection's keepalive detects a dead store
            if self._urgent():
                await asyncio.sleep(
                    self._options.progress_interval if self._state.complete else self._options.first_backoff
                )
            else:
                await self._wait_until_quiet_or_urgent()
            try:
                await self._ask()
            except EtcdError:
                log.debug("progress not requested: the watch is broken")

    def _urgent(self) -> bool:
        return self.waiters.any.is_set() or not self._state.complete

    async def _wait_until_quiet_or_urgent(self) -> None:
        """Wait until a caller waits for a revision, at most `quiet_after`."""
        await wait_set(self.waiters.any, self._options.quiet_after)

    async def _ask(self) -> None:
        watch, silence = self._watch, time.monotonic() - self._last_message
        if watch is None:
            return
        if silence > self._options.dead_after:
            log.warning("store silent, reopening the watch silence=%.0fs", silence)
            watch.cancel()
        elif self._urgent() or silence >= self._options.quiet_after * 0.9:
            await watch.request_progress()
