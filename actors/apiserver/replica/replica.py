"""The replica of one resource: a follower of its objects stream that shows the store's exact state at `mark`.

A new epoch of the watch cache sends a snapshot with history. Changes that were applied already are skipped by their
revision and the others are applied in order, so that an open watch sees neither a gap nor a repetition.

Own writes of this process are applied when the store acknowledges them, if everything before them is applied (see
`own_writes`). The watch cache's events of them come later and confirm them.

A store that was restored from a backup has another history. A replica detects it by a lower revision, an object that
differs or a digest that differs. It then drops its state and ends its watches, and their clients list again.
"""

import asyncio
import logging
import time
from collections.abc import Callable

from msgspec.structs import replace

from actors.apiserver.api.errors import TooLargeVersion, TooManyRequests
from actors.apiserver.api.stored import Stored, corruption, is_sound
from actors.apiserver.replica.objects import CorruptObjects, Objects
from actors.apiserver.replica.own_writes import OwnWrite, OwnWrites
from actors.apiserver.replica.resync import Snapshot, changes_between, read_snapshot, same
from actors.apiserver.replica.unconfirmed import Unconfirmed
from actors.apiserver.replica.waiters import PROGRESS_TIMEOUT, RevisionWaiters
from actors.apiserver.replica.window import Change, Window
from protocols.bus import Event
from protocols.kinds.served.row import Served
from protocols.messages.objects import (
    DELETED,
    DIGEST,
    DIGEST_MASK,
    MODIFIED,
    ObjectEvent,
    fingerprint,
)
from protocols.process.tasks import wait_set

log = logging.getLogger(__name__)
FILL_SECONDS = 1.0
"""Time for which a read waits for the first snapshot, which a starting process has soon: a client that is asked to come
again waits for a second."""
ARRIVAL_SECONDS = 0.003
"""Seconds in which a revision usually arrives after a write. Only then is the watch cache asked for progress."""


class Replica:
    """A StreamSink of the bus for ObjectEvents.

    Every method runs in the event loop. The methods of the sink never await, so that a watch can join between two
    events without a gap.
    """

    def __init__(
        self,
        resource: Served,
        request_progress: Callable[[int], None] | None = None,
        own_writes: OwnWrites | None = None,
    ) -> None:
        """`own_writes` are those of the resource's store."""
        self.resource = resource
        self.objects = Objects()
        self.corrupt = CorruptObjects(resource.storage_prefix, resource.custom is not None)
        self.window = Window()
        self.mark = 0
        """All changes up to this revision are applied and were passed to the listeners."""
        self.filled = False
        """True from the first snapshot on: there is a state to serve, even if it is stale."""
        self.synced = False
        self.histories_replaced = 0
        """Number of times the store's history turned out to be another one than the history applied here."""
        self.refetch: Callable[[], None] = _not_connected
        """Request a snapshot from the watch cache."""
        self.changed_at = time.monotonic()
        self._digest_differs = False
        """True from a digest mismatch until the requested snapshot arrives."""
        self._fetching = False
        """True while a requested snapshot has not arrived. No own writes are applied then."""
        self._own_writes = own_writes or OwnWrites()
        self._unconfirmed = Unconfirmed()
        self._begun: list[tuple[str, ObjectEvent]] = []
        """Changes of a revision whose last one has not come: no list, bookmark or watch sees a part of a revision."""
        self._latest: tuple[int, set[str]] = (0, set())
        self._waiters = RevisionWaiters()
        self._request_progress = request_progress or (lambda _rv: None)
        self._listeners: list[Callable[[Change], None]] = []
        self._on_mark: list[Callable[[int], None]] = []
        self._on_history_replaced: list[Callable[[], None]] = []
        self._first_fill = asyncio.Event()

    def listen(self, listener: Callable[[Change], None]) -> None:
        """Call `listener` with each change, after `objects` shows it."""
        self._listeners.append(listener)

    def forget(self, listener: Callable[[Change], None]) -> None:
        self._listeners.remove(listener)

    def listen_mark(self, listener: Callable[[int], None]) -> None:
        """Call `listener` with each new mark, after the changes that led to it."""
        self._on_mark.append(listener)

    def unlisten_mark(self, listener: Callable[[int], None]) -> None:
        self._on_mark.remove(listener)

    def listen_history_replaced(self, listener: Callable[[], None]) -> None:
        """Call `listener` when the history is replaced, before the changes that lead to the new state."""
        self._on_history_replaced.append(listener)

    def unlisten_history_replaced(self, listener: Callable[[], None]) -> None:
        self._on_history_replaced.remove(listener)

    def on_snapshot(self, items: list[tuple[str, ObjectEvent]], mark: int) -> None:
        self._fetching, self._begun = False, []
        whole = read_snapshot(items, mark)
        snapshot = self._readable(whole)
        if self.filled:
            self._catch_up(snapshot, mark)
            self._readable(whole)  # catching up deleted what became unreadable, and dropped its entries in `corrupt`
        else:
            self._fill(snapshot, mark)
        self.on_mark(mark)

    def on_event(self, event: Event[ObjectEvent]) -> None:
        value = event.value
        if value is not None and value.more:
            self._begun.append((event.key, value))
            return
        begun, self._begun = self._begun, []
        for key, part in begun:
            self._apply_once(key, part)
        if value is not None and value.type == DIGEST:
            self._check_digest(value)
        elif value is not None:
            self._apply_once(event.key, value)
        self.on_mark(event.mark)

    def on_mark(self, mark: int) -> None:
        if not self._unconfirmed.pass_mark(mark):
            self._fetch(f"a change applied here did not come up to revision {mark}")
        self._advance(mark)
        if self.resource.store in self._own_writes.waiting:
            self.apply_own()

    def apply_own(self) -> None:
        """Apply the own writes that follow the state without a gap.

        A write that does not fit the object held here waits for the watch cache's event, and so do those after it.
        """
        name, own = self.resource.store, self._own_writes
        while self.synced and not self._fetching and not self._unconfirmed.full:
            write = own.take(name, self._settled, self.mark)
            change = self._own_change(write) if write is not None else None
            if change is None:
                return
            own.applied(name)
            self._note_applied(change.key, change.rv)
            self._unconfirmed.add(change)
            self._apply(change)
            self._advance(change.rv)

    def _own_change(self, write: OwnWrite) -> Change | None:
        """Return the change of an own write; None if it does not follow the object held here or cannot be read."""
        held, raw = self.objects.get(write.key), write.raw
        if (held.rv if held else 0) != write.guard or write.key in self.corrupt:
            return None
        if raw is not None and not is_sound(raw, self.resource.custom is not None):
            return None
        after = None if raw is None else Stored(write.key, write.rv, raw)
        return Change(write.key, write.rv, held, after, time.monotonic())

    def _advance(self, mark: int) -> None:
        if mark > self.mark:
            self.mark = mark
            self.changed_at = time.monotonic()
            if self._waiters.pending:
                self._waiters.advance(mark)
            for listener in self._on_mark:
                listener(mark)

    def on_synced(self, synced: bool) -> None:
        self.synced = synced
        if not synced:
            self._own_writes.clear()  # the store may have been restored: their revisions may mean other changes then

    def check_filled(self) -> None:
        if not self.filled:
            raise TooManyRequests("storage is (re)initializing: the replica is not filled yet", retry_after=1)

    async def wait_filled(self) -> None:
        await self._first_fill.wait()

    async def filled_soon(self, seconds: float | None = None) -> None:
        """Wait at most so long, or FILL_SECONDS, for the first snapshot. Raises TooManyRequests without it."""
        if not self.filled:
            await wait_set(self._first_fill, FILL_SECONDS if seconds is None else seconds)
            self.check_filled()

    async def wait_for(self, rv: int, timeout: float = PROGRESS_TIMEOUT) -> None:
        """Return once `mark` has reached `rv`.

        Raises TooManyRequests without a first snapshot and TooLargeVersion at the deadline.
        """
        await self.filled_soon()
        if self.mark >= rv:
            return
        if await self._waiters.wait(rv, ARRIVAL_SECONDS):
            return
        self._request_progress(rv)
        if not await self._waiters.wait(rv, timeout):
            raise TooLargeVersion(rv, self.mark)

    def _readable(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot without unreadable objects. Those the replica holds are known to be sound."""
        self.corrupt.keep(snapshot.stored)
        objects = snapshot.stored.items()
        sound = {
            key: stored
            for key, stored in objects
            if same(self.objects.get(key), stored) or self.corrupt.readable(stored)
        }
        return replace(snapshot, stored=sound)

    def _fill(self, snapshot: Snapshot, mark: int) -> None:
        self.objects.replace(snapshot.stored)
        self.window = Window(floor=min(snapshot.floor, mark))
        for key, event in snapshot.history:
            change = self._change(key, event, None)
            if change is not None:
                self.window.append(change)
            self._note_applied(key, event.rv)
        self.filled = True
        self._first_fill.set()

    def _catch_up(self, snapshot: Snapshot, mark: int) -> None:
        """Apply the changes since `mark`. If the history has a gap, apply the difference between the two states."""
        newest, reached = self._unconfirmed.on_top_of(snapshot, mark)
        if why := self._contradiction(newest, reached):
            self._start_over(snapshot, mark, why)
            return
        self._unconfirmed.confirm_up_to(mark)
        snapshot, mark = newest, reached
        if snapshot.floor <= self._settled:
            for key, event in snapshot.history:
                self._apply_once(key, event)
            return
        changes = snapshot.difference(self.objects, self.mark, mark)
        if not changes and snapshot.floor <= self.mark:
            return
        for key, event in changes:
            self._apply_once(key, event)
        self.window = Window(floor=mark)

    @property
    def _settled(self) -> int:
        """The revision of which all changes are applied; of the newest revision some may still be missing."""
        return self.mark - 1 if self._latest[0] == self.mark else self.mark

    def _contradiction(self, snapshot: Snapshot, mark: int) -> str:
        if self._digest_differs:
            return "the digest of its objects differs"
        if mark < self.mark:
            return f"the store is at revision {mark}"
        return snapshot.contradiction(self.objects, self._settled, self.corrupt)

    def _check_digest(self, event: ObjectEvent) -> None:
        """Compare the digest of all objects with the watch cache's, which arrives once its replay is complete."""
        held = sum(fingerprint(stored.key, stored.rv, stored.raw) for stored in self.objects.below(""))
        held += self.corrupt.digest() - self._unconfirmed.digest_after(event.rv)
        if event.object != (held & DIGEST_MASK).to_bytes(8, "big"):
            self._digest_differs = True
            self._fetch("the digest of its objects differs")

    def _fetch(self, why: str) -> None:
        """Request a snapshot, which shows whether the history was replaced or the watch cache had to list again."""
        if not self._fetching:
            log.warning("%s: not what the watch cache has (%s), fetching all", self.resource.store, why)
            self._fetching = True
            self._own_writes.clear()
            self._unconfirmed.start_over(self._unconfirmed.mark)
            self.refetch()

    def _start_over(self, snapshot: Snapshot, mark: int, why: str) -> None:
        """Replace history and objects by those of the snapshot; `mark` may go back."""
        text = "%s: history up to revision %d is not the store's (%s); starting over at revision %d"
        log.warning(text, self.resource.store, self.mark, why, mark)
        self.histories_replaced += 1
        self._digest_differs = False
        self._own_writes.clear()
        self._unconfirmed.start_over(mark)
        for listener in tuple(self._on_history_replaced):
            listener()
        changes = changes_between(self.objects, snapshot.stored, mark)
        self.objects.replace(snapshot.stored)
        self.window = Window(floor=mark)
        self._latest = (0, set())
        self.mark = mark
        for change in changes:
            for follow in tuple(self._listeners):
                follow(change)

    def _apply_once(self, key: str, event: ObjectEvent) -> None:
        if self._is_applied(key, event.rv):
            if not self._fetching and not self._unconfirmed.confirm(key, event):
                self._fetch(f"{key} of revision {event.rv} is not what was applied here")
            return
        self._note_applied(key, event.rv)
        change = self._change(key, event, self.objects.get(key))
        if change is not None:
            self._apply(change)

    def _apply(self, change: Change) -> None:
        if change.after is None:
            self.objects.remove(change.key)
        else:
            self.objects.put(change.after)
        self.window.append(change)
        for listener in self._listeners:
            listener(change)

    def _change(self, key: str, event: ObjectEvent, known: Stored | None) -> Change | None:
        """Return the change of an event; None when neither the old nor the new object can be read.

        `known` is the object held now. Reusing it saves decoding `previous` again.
        """
        before, after = self._before(key, event, known), None
        if event.type == DELETED:
            self.corrupt.forget(key)
        else:
            after = self.corrupt.readable(Stored(key, event.rv, event.object))
        if before is None and after is None:
            return None
        return Change(key, event.rv, before, after, time.monotonic())

    def _before(self, key: str, event: ObjectEvent, known: Stored | None) -> Stored | None:
        raw = event.object if event.type == DELETED else event.previous
        if not raw:
            return known if event.type == MODIFIED else None
        if known is not None and known.raw == raw:
            return known
        return None if corruption(raw, self.resource.custom is not None) else Stored(key, event.previous_rv, raw)

    def _is_applied(self, key: str, rv: int) -> bool:
        latest, keys = self._latest
        return key in keys if rv == latest else rv <= max(latest, self.mark)

    def _note_applied(self, key: str, rv: int) -> None:
        """Record an applied change. Several objects may change in one revision, so its keys are recorded, too."""
        if rv == self._latest[0]:
            self._latest[1].add(key)
        else:
            self._latest = (rv, {key})


def _not_connected() -> None:
    """Stand in for `refetch` until the replica follows a watch cache."""
