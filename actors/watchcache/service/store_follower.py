"""What an etcd version can be relied on for. Pure."""

import asyncio
import logging
import re
import time
from contextlib import suppress
from typing import ClassVar, Protocol

from actors.watchcache.cache.history_check import HistoryLost, Proof
from actors.watchcache.cache.options import WatchcacheOptions
from actors.watchcache.cache.store_state import Change, State
from protocols.errors import NodeplaneError
from protocols.etcd import (
    AnswerTooLarge,
    Compacted,
    DeadlineExceeded,
    EtcdClient,
    EtcdError,
    KeyValue,
    Ranged,
    Watch,
    WatchBatch,
)
from protocols.etcd.paging import Listing


class StoreTooOld(NodeplaneError):
    """Raised at start when the etcd version is known to lose acknowledged writes."""

    grpc: ClassVar[str] = "FAILED_PRECONDITION"


Version = tuple[int, int, int]


def parse(text: str) -> Version:
    """`3.5.13`, `3.6.0-rc.1`; anything else counts as the oldest."""
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2]), int(found[3])) if found else (0, 0, 0)


def check(text: str) -> None:
    """Raises StoreTooOld for versions that lose acknowledged writes when they are killed."""
    version = parse(text)
    if version < (3, 4, 21) or (3, 5, 0) <= version < (3, 5, 6):
        raise StoreTooOld(f"etcd {text} can lose acknowledged writes in a crash; use 3.4.21, 3.5.6, 3.6 or newer")


def answers_in_order(text: str) -> bool:
    """Whether progress on request comes behind the events it speaks of. Others tell the store's revision at once, even
    to a watch that is still catching up: to believe it would lose events."""
    version = parse(text)
    return version >= (3, 5, 13) or (3, 4, 31) <= version < (3, 5, 0)


CROWD = 3
"""Changes taken at once from which on the next ones wait twice as long, and below which half as long."""


class Gathering:
    def __init__(self, shortest: float, longest: float) -> None:
        """Seconds."""
        self._shortest, self._longest = shortest, longest
        self._wait = self._resumed = 0.0

    def after(self, taken: int, now: float) -> float:
        """Seconds to leave what comes next to the kernel, after `taken` changes were taken at `now`."""
        if now - self._resumed >= 1.5 * self._shortest:
            self._wait = 0.0
        elif self._wait and taken >= CROWD:
            self._wait = min(2 * self._wait, self._longest)
        else:
            self._wait = max(self._wait / 2, self._shortest)
        self._resumed = now + self._wait
        return self._wait


class Waiters:
    """Futures by revision; bounded by the bus's own limit on running calls."""

    def __init__(self) -> None:
        self._waiting: set[tuple[int, asyncio.Future[None]]] = set()
        self.any = asyncio.Event()
        """Set while someone waits."""

    async def wait(self, revision: int, timeout: float) -> bool:
        """False when it did not come in time."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (revision, future)
        self._waiting.add(entry)
        self.any.set()
        try:
            await asyncio.wait_for(future, timeout)
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

TOGETHER = 64
"""Batches taken in one go."""


class Listener(Protocol):
    def tell(self, changes: list[Change]) -> None:
        """After every batch once the state is complete, and with nothing at the first time."""

    def trouble(self, why: str) -> None:
        """Why the store cannot be followed just now; empty once it can."""


class Feed:
    def __init__(self, options: WatchcacheOptions, client: EtcdClient, state: State, listener: Listener) -> None:
        self._options, self._client, self._state = options, client, state
        self._tell, self._trouble = listener.tell, listener.trouble
        self._watch: Watch | None = None
        self._open = asyncio.Event()
        self._gathering = Gathering(options.gather, options.gather_crowd)
        self._heard = 0.0
        self._in_order = True
        self._announced = False
        self._proof = Proof({}, 0)
        self.waiters = Waiters()
        self.reconnects = 0

    async def run(self) -> None:
        """Forever. Raises HistoryLost, StoreTooOld."""
        await self._meet()
        self._state.load(*await self._read(), self._in_order)
        pause = self._options.first_pause
        while True:
            before = self._state.position
            try:
                await self._follow()
            except Compacted as error:
                await self._jump(error)
                continue
            except EtcdError as error:
                log.warning("watch of the store broke: %s; opening it again", error)
                self._trouble(str(error))
            self.reconnects += 1
            pause = self._options.first_pause if self._state.position > before else pause
            await asyncio.sleep(pause)
            pause = min(pause * 2, self._options.longest_pause)

    async def _meet(self) -> None:
        """Ask the members' versions, however long all are away; the oldest one counts."""
        pause = self._options.first_pause
        while True:
            try:
                version = min((status.version for status in await self._client.statuses()), key=parse)
                break
            except EtcdError as error:
                log.warning("cannot ask the store's version: %s; trying again", error)
                self._trouble(str(error))
            await asyncio.sleep(pause)
            pause = min(pause * 2, self._options.longest_pause)
        check(version)
        self._in_order = answers_in_order(version)
        if not self._in_order:
            log.warning("etcd %s tells progress out of order: only its own notifications are used", version)

    async def _read(self) -> tuple[list[KeyValue], int]:
        """Every key at one revision, however long the store is away; from the start again when that was compacted.

        The deadline is that of a page, and what fails is one page: it is asked for again, with fewer keys.
        """
        listing, pause = Listing(self._options.prefix), self._options.first_pause
        while not listing.complete:
            try:
                listing.took(await self._page(listing))
                pause = self._options.first_pause
                continue
            except Compacted as error:
                listing = Listing(self._options.prefix)
                self._unlisted(error)
            except (AnswerTooLarge, DeadlineExceeded) as error:
                self._unlisted(error)
                if listing.pager.failed():
                    continue
            except EtcdError as error:
                self._unlisted(error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, self._options.longest_pause)
        return listing.kvs, listing.revision

    async def _page(self, listing: Listing) -> Ranged:
        return await self._client.range(listing.prefix, listing.start, listing.pager.limit, listing.revision)

    def _unlisted(self, error: EtcdError) -> None:
        log.warning("cannot list the store: %s; trying again", error)
        self._trouble(str(error))

    async def _follow(self) -> None:
        self._proof = self._state.lineage.proof(self._state.position)
        start = self._proof.start
        async with self._client.watch(self._prefix, start, progress_notify=self._options.efficient) as watch:
            await self._check_same(watch)
            self._watch, self._heard = watch, time.monotonic()
            self._open.set()
            self._trouble("")
            self._announce()
            try:
                if self._asks:
                    await watch.request_progress()
                await self._take_all(watch)
            finally:
                self._watch = None
                self._open.clear()

    async def _take_all(self, watch: Watch) -> None:
        """What has arrived together is taken and told together: followers wake once for all of it."""
        batches: list[WatchBatch] = []
        try:
            async for batch in watch:
                batches.append(batch)
                if watch.more and len(batches) < TOGETHER:
                    continue
                together, batches = batches, []
                self._take(together)
                if not watch.more:
                    await self._gather(watch, sum([len(each.events) for each in together]))
        finally:
            self._take(batches)

    async def _gather(self, watch: Watch, taken: int) -> None:
        """Unless somebody waits for what comes next."""
        seconds = self._gathering.after(taken, time.monotonic())
        if not seconds or self.waiters.any.is_set():
            return
        watch.hold()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.waiters.any.wait()

    @property
    def _prefix(self) -> bytes:
        """Where progress cannot be asked for, every key is watched: then each revision comes as an event, in order."""
        return self._options.prefix if self._in_order or not self._options.efficient else b""

    @property
    def _asks(self) -> bool:
        return self._in_order and self._options.efficient

    async def _check_same(self, watch: Watch) -> None:
        """A store whose data is what we have read is never behind us; a member of a cluster may be, the cluster not."""
        seen = max(self._state.position, self._state.listed)
        if watch.revision >= seen:
            return
        revision = await self._client.current_revision(self._options.prefix)
        if revision < seen:
            raise HistoryLost(f"the store is at revision {revision}, this cache has seen {seen} of it")

    def _take(self, batches: list[WatchBatch]) -> None:
        """In one go: who asks for the state between taking and telling would be told of changes twice."""
        state, changes = self._state, list[Change]()
        before = state.position
        self._heard = time.monotonic()
        for batch in batches:
            if not self._proof.given:
                self._check_history(batch)
            made = state.take(batch, self._heard)
            if self._announced:
                changes += made
            else:
                self._announce()
        if self._announced and (changes or state.position != before):
            self._tell(changes)
            self.waiters.advance(state.position)

    def _check_history(self, batch: WatchBatch) -> None:
        """Raises HistoryLost."""
        found = self._proof.contradiction(batch.revision, batch.events)
        if found:
            raise HistoryLost(f"the store's history was replaced, as by a restored backup: {found}; starting anew")

    def _announce(self) -> None:
        """Tell for the first time: the state holds all changes so far."""
        if not self._announced and self._state.complete:
            self._announced = True
            self._tell([])
            self.waiters.advance(self._state.position)

    async def _jump(self, error: Compacted) -> None:
        """The position is compacted: during the filling of the windows they get shorter, later it takes a list."""
        state = self._state
        if not state.complete and error.compact_revision <= state.listed:
            state.skip_to(error.compact_revision)
            return
        if 0 < error.compact_revision <= state.position and len(state.lineage):
            state.lineage.forget_up_to(error.compact_revision)  # only what proves the history is compacted
            return
        log.warning("%s; listing again", error)
        kvs, revision = await self._read()
        if not self._announced:
            state.load(kvs, revision, self._in_order)
            return
        if found := state.contradicted(kvs, revision):
            raise HistoryLost(f"the store's history was replaced, as by a restored backup: {found}; starting anew")
        changes = state.replace(kvs, revision)
        self._tell(changes)
        self.waiters.advance(state.position)

    async def keep(self) -> None:
        """Ask for progress: often while the state is incomplete or someone waits, seldom when the store is silent."""
        while True:
            await self._open.wait()
            if not self._asks:
                return  # silence is normal then, and only the connection's keepalive tells a dead store
            if self._hurried():
                await asyncio.sleep(self._options.nudge if self._state.complete else self._options.first_pause)
            else:
                await self._rest()
            try:
                await self._ask()
            except EtcdError:
                log.debug("progress was not asked for: the watch is broken")

    def _hurried(self) -> bool:
        return self.waiters.any.is_set() or not self._state.complete

    async def _rest(self) -> None:
        """Until someone waits, or the store is quiet for long."""
        try:
            async with asyncio.timeout(self._options.quiet):
                await self.waiters.any.wait()
        except TimeoutError:
            return

    async def _ask(self) -> None:
        watch, silence = self._watch, time.monotonic() - self._heard
        if watch is None:
            return
        if silence > self._options.dead:
            log.warning("the store has been silent for %.0f s; opening the watch again", silence)
            watch.cancel()
        elif self._hurried() or silence >= self._options.quiet * 0.9:
            await watch.request_progress()
