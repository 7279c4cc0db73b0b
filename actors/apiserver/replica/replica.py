"""Follower of one objects stream. What it shows is the store's state at `mark`, exactly.

A new epoch of the watch cache brings a snapshot with history: changes already applied are dropped by revision, the
others are applied in order, so an open watch sees neither gap nor repetition.

A store restored from a backup has another history. A replica recognises it by its state (a lower revision, an object
that differs, a digest that differs), forgets all it has, and ends its watches: their clients list again.
"""

import asyncio
import heapq
import itertools
import logging
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress

from msgspec.structs import replace

from actors.apiserver.api.errors import TooLargeVersion, TooManyRequests
from actors.apiserver.api.resource import Resource
from actors.apiserver.api.stored import Stored, corruption
from actors.apiserver.replica.objects import Corrupt, Objects
from actors.apiserver.replica.resync import Resync, changes_between, read_snapshot, same
from actors.apiserver.replica.window import Change, Window
from protocols.bus import Bus, Event
from protocols.errors import NodeplaneError
from protocols.messages.objects import (
    DELETED,
    DIGEST,
    DIGEST_MASK,
    FRESHEN,
    MODIFIED,
    OWNER,
    Freshen,
    ObjectEvent,
    fingerprint,
)
from protocols.messages.supervisor import Empty

log = logging.getLogger(__name__)
FRESH_TIMEOUT = 3.0
PATIENCE = 0.003
"""Seconds for a revision to come by itself, as it does after a write, before the watch cache is asked for it."""
Spawn = Callable[[Coroutine[None, None, None], str], asyncio.Task[None]]


class Replica:
    """A bus StreamSink of ObjectEvent. Every method runs in the event loop and none of the sink's awaits."""

    def __init__(self, resource: Resource, request_progress: Callable[[int], None] | None = None) -> None:
        self.resource = resource
        self.objects = Objects()
        self.corrupt = Corrupt(resource.storage_prefix, resource.custom is not None)
        self.window = Window()
        self.mark = 0
        """Everything up to this revision has been applied and handed to the watchers."""
        self.filled = False
        """A first snapshot came; from then on there is always something to serve."""
        self.synced = False
        self.resyncs = 0
        self.histories_replaced = 0
        """How often the store's history was another one than that applied here."""
        self.refetch: Callable[[], None] = _nobody
        """Asks the watch cache for a snapshot."""
        self.changed_at = time.monotonic()
        self._doubted = False
        """Set between a digest that differed and the snapshot asked for."""
        self._latest: tuple[int, set[str]] = (0, set())
        self._waiters = Waiters()
        self._request_progress = request_progress or (lambda _rv: None)
        self._listeners: list[Callable[[Change], None]] = []
        self._on_mark: list[Callable[[int], None]] = []
        self._on_history_replaced: list[Callable[[], None]] = []
        self._first_fill = asyncio.Event()

    def listen(self, listener: Callable[[Change], None]) -> None:
        """`listener` is told each change after the objects show it."""
        self._listeners.append(listener)

    def forget(self, listener: Callable[[Change], None]) -> None:
        self._listeners.remove(listener)

    def listen_mark(self, listener: Callable[[int], None]) -> None:
        """Call `listener` with each new mark, after the change that brought it."""
        self._on_mark.append(listener)

    def unlisten_mark(self, listener: Callable[[int], None]) -> None:
        self._on_mark.remove(listener)

    def listen_history_replaced(self, listener: Callable[[], None]) -> None:
        """Call `listener` when the history is replaced, before the changes that lead to the new state."""
        self._on_history_replaced.append(listener)

    def unlisten_history_replaced(self, listener: Callable[[], None]) -> None:
        self._on_history_replaced.remove(listener)

    def on_snapshot(self, items: list[tuple[str, ObjectEvent]], mark: int) -> None:
        whole = read_snapshot(items, mark)
        snapshot = self._readable(whole)
        if self.filled:
            self._catch_up(snapshot, mark)
            self._readable(whole)  # what became unreadable meanwhile was just deleted, and forgotten with that
        else:
            self._fill(snapshot, mark)
        self.on_mark(mark)

    def on_event(self, event: Event[ObjectEvent]) -> None:
        if event.value is not None and event.value.type == DIGEST:
            self._check_digest(event.value)
        elif event.value is not None:
            self._apply_once(event.key, event.value)
        self.on_mark(event.mark)

    def on_mark(self, mark: int) -> None:
        if mark > self.mark:
            self.mark = mark
            self.changed_at = time.monotonic()
            if self._waiters.pending:
                self._waiters.advance(mark)
            for listener in self._on_mark:
                listener(mark)

    def on_synced(self, synced: bool) -> None:
        self.synced = synced

    def check_filled(self) -> None:
        if not self.filled:
            raise TooManyRequests("storage is (re)initializing: the replica is not filled yet", retry_after=1)

    async def wait_filled(self) -> None:
        await self._first_fill.wait()

    async def wait_for(self, rv: int, timeout: float = FRESH_TIMEOUT) -> None:
        """Return once `mark` has reached `rv`; raises TooLargeVersion at the deadline."""
        self.check_filled()
        if self.mark >= rv:
            return
        if await self._waiters.wait(rv, PATIENCE):
            return
        self._request_progress(rv)
        if not await self._waiters.wait(rv, timeout):
            raise TooLargeVersion(rv, self.mark)

    def _readable(self, snapshot: Resync) -> Resync:
        """Return the snapshot without objects that cannot be read; those already held are known to be sound."""
        self.corrupt.keep(snapshot.stored)
        found = snapshot.stored.items()
        sound = {key: each for key, each in found if same(self.objects.get(key), each) or self.corrupt.sift(each)}
        return replace(snapshot, stored=sound)

    def _fill(self, snapshot: Resync, mark: int) -> None:
        self.objects.replace(snapshot.stored)
        self.window = Window(floor=min(snapshot.floor, mark))
        for key, event in snapshot.history:
            change = self._change(key, event, None)
            if change is not None:
                self.window.append(change)
            self._remember(key, event.rv)
        self.filled = True
        self._first_fill.set()

    def _catch_up(self, snapshot: Resync, mark: int) -> None:
        """Apply what this replica has not seen yet; without a gapless history, the difference of the states."""
        self.resyncs += 1
        if why := self._contradiction(snapshot, mark):
            self._start_over(snapshot, mark, why)
            return
        if snapshot.floor <= self.mark:
            for key, event in snapshot.history:
                self._apply_once(key, event)
            return
        for key, event in snapshot.difference(self.objects, mark):
            self._apply_once(key, event)
        self.window = Window(floor=mark)

    def _contradiction(self, snapshot: Resync, mark: int) -> str:
        if self._doubted:
            return "the digest of its objects differs"
        if mark < self.mark:
            return f"the store is at revision {mark}"
        settled = self.mark - 1 if self._latest[0] == self.mark else self.mark
        return snapshot.contradiction(self.objects, settled, self.corrupt)

    def _check_digest(self, event: ObjectEvent) -> None:
        """The replay is complete: the watch cache holds exactly the objects that stand here, or never had them."""
        held = sum(fingerprint(each.key, each.rv, each.raw) for each in self.objects.below(""))
        if event.object != (held + self.corrupt.digest() & DIGEST_MASK).to_bytes(8, "big"):
            log.warning("%s: objects differ from the watch cache's, fetching all", self.resource.store)
            self._doubted = True
            self.refetch()

    def _start_over(self, snapshot: Resync, mark: int, why: str) -> None:
        """Forget history and objects; revisions may go back."""
        told = (self.resource.store, self.mark, why, mark)
        log.warning("%s: history up to revision %d is not the store's (%s); starting over at revision %d", *told)
        self.histories_replaced += 1
        self._doubted = False
        for forgotten in tuple(self._on_history_replaced):
            forgotten()
        changes = changes_between(self.objects, snapshot.stored, mark)
        self.objects.replace(snapshot.stored)
        self.window = Window(floor=mark)
        self._latest = (0, set())
        self.mark = mark
        for change in changes:
            for listener in tuple(self._listeners):
                listener(change)

    def _apply_once(self, key: str, event: ObjectEvent) -> None:
        if self._seen(key, event.rv):
            return
        self._remember(key, event.rv)
        change = self._change(key, event, self.objects.get(key))
        if change is None:
            return
        if change.after is None:
            self.objects.remove(key)
        else:
            self.objects.put(change.after)
        self.window.append(change)
        for listener in self._listeners:
            listener(change)

    def _change(self, key: str, event: ObjectEvent, known: Stored | None) -> Change | None:
        """None when neither what was nor what is can be read. `known` saves decoding `previous` again when it is the
        very object we hold."""
        before, after = self._before(key, event, known), None
        if event.type == DELETED:
            self.corrupt.forget(key)
        else:
            after = self.corrupt.sift(Stored(key, event.rv, event.object))
        if before is None and after is None:
            return None
        return Change(key, event.rv, before, after, time.monotonic())

    def _before(self, key: str, event: ObjectEvent, known: Stored | None) -> Stored | None:
        raw = event.object if event.type == DELETED else event.previous
        if not raw:
            return known if event.type == MODIFIED else None
        if known is not None and known.raw == raw:
            return known
        return None if corruption(raw, self.resource.custom is not None) else Stored(key, event.rv, raw)

    def _seen(self, key: str, rv: int) -> bool:
        latest, keys = self._latest
        return key in keys if rv == latest else rv <= max(latest, self.mark)

    def _remember(self, key: str, rv: int) -> None:
        """Several objects may change in one revision: the latest revision's keys tell repetition from company."""
        if rv == self._latest[0]:
            self._latest[1].add(key)
        else:
            self._latest = (rv, {key})


def _nobody() -> None:
    """Not connected to a watch cache."""


class Waiters:
    """Bound to the running loop; each waiter is woken once, at its revision or at its deadline."""

    def __init__(self) -> None:
        self.pending: list[tuple[int, int, asyncio.Future[None]]] = []
        """A heap; empty: there is nothing to advance."""
        self._order = itertools.count()

    async def wait(self, rv: int, timeout: float) -> bool:
        """True when `advance` reached `rv` in time."""
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self.pending, (rv, next(self._order), future))
        done, _ = await asyncio.wait([future], timeout=timeout)
        future.cancel()
        return bool(done)

    def advance(self, rv: int) -> None:
        while self.pending and (self.pending[0][0] <= rv or self.pending[0][2].done()):
            future = heapq.heappop(self.pending)[2]
            if not future.done():
                future.set_result(None)


class ProgressRequester:
    """For one store: one question at a time is enough, about the highest revision wanted."""

    def __init__(self, bus: Bus, store: int, spawn: Spawn) -> None:
        self._bus, self._store, self._spawn = bus, store, spawn
        self._wanted = 0
        self._asking: asyncio.Task[None] | None = None

    def request_progress(self, revision: int) -> None:
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
