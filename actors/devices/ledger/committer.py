"""Checkpoint before acknowledgement: changes are written in order, and only then published and answered.

Changes that arrive during a write share the next one, so an fsync serves all pods that wait for it.
"""

import asyncio
from collections.abc import Callable

import msgspec

from actors.devices.ledger.checkpoint import Snapshot
from actors.devices.model.errors import CheckpointNotWritten
from protocols.lifecycle.devices.types import PodRecord
from protocols.messages.allocation_history import AllocationHistory
from protocols.messages.devices import LedgerEvent

WRITE_DELAY_S = 0.5
"""Delay of writes that nobody waits for: flapping devices cost two writes a second, not hundreds."""


class PendingChange(msgspec.Struct, frozen=True):
    """A pod admitted, changed or released, not durable yet."""

    record: PodRecord
    new: bool
    deleted: bool
    done: "asyncio.Future[None]"

    def event(self, mark: int) -> LedgerEvent:
        return LedgerEvent(mark=mark, allocation=self.record.allocation, new=self.new, deleted=self.deleted)


class CommitterOptions(msgspec.Struct, frozen=True):
    """Where changes come from, are written and are published."""

    snapshot: Callable[[], Snapshot]
    """Returns the state with all changes handed in so far, without position and events."""
    save: Callable[[Snapshot], None]
    """Blocks until it is on disk; raises OSError."""
    publish: Callable[[LedgerEvent], None]
    undo: Callable[[PodRecord], None]
    """Takes back an admission that could not be written."""
    log: Callable[[str], None]
    retry: float


class Committer:
    """The only writer of the checkpoint; `history` ends at the position on disk."""

    def __init__(self, history: AllocationHistory, options: CommitterOptions) -> None:
        self._history = history
        self._options = options
        self._pending: list[PendingChange] = []
        self._writing: list[PendingChange] = []
        self._requested = self._written = self._failed = 0
        """Numbers of the last request to write, and of the last one that a write has met, or could not."""
        self._wake = asyncio.Event()
        self._logged_error = ""
        self._delayed: asyncio.TimerHandle | None = None
        self._ended = asyncio.Event()
        """Set, and replaced, at the end of each write."""

    def change(self, record: PodRecord, deleted: bool = False, update: bool = False) -> "asyncio.Future[None]":
        """Hand in a change, in the same step as the ledger's. The future completes once it is durable and published.

        A record without its pod's name is durable but not an event: it was never published.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pending.append(PendingChange(record, not (deleted or update), deleted, done))
        self.request_write()
        return done

    def request_write(self) -> None:
        """Write the state soon, since something besides an allocation changed."""
        self._requested += 1
        self._wake.set()

    def request_write_later(self) -> None:
        """Write the state within WRITE_DELAY_S: only a restart reads it, and plugins report it again anyway."""
        if self._delayed is None:
            self._delayed = asyncio.get_running_loop().call_later(WRITE_DELAY_S, self._end_delay)

    def _end_delay(self) -> None:
        if self._delayed is not None:
            self._delayed.cancel()
            self._delayed = None
            self.request_write()

    async def wait_written(self) -> None:
        """Wait until everything handed in until now is on disk. Raises CheckpointNotWritten."""
        self._end_delay()
        mine = self._requested
        while self._written < mine:
            if self._failed >= mine:
                raise CheckpointNotWritten(self._logged_error)
            await self._ended.wait()

    async def wait_pod_written(self, uid: str) -> None:
        """Wait for what was handed in of a pod, also by another call. Raises CheckpointNotWritten."""
        if any(change.record.allocation.uid == uid for change in (*self._writing, *self._pending)):
            await self.wait_written()

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._written < self._requested:
                await self._write()

    async def _write(self) -> None:
        batch, self._pending, upto = self._pending, [], self._requested
        self._writing = batch
        published = [change for change in batch if change.record.has_pod_name]
        events = [change.event(mark) for mark, change in enumerate(published, start=self._history.mark + 1)]
        try:
            await asyncio.to_thread(self._options.save, self._snapshot(events))
        except OSError as error:
            self._fail(batch, f"cannot write the device checkpoint: {error.strerror}; nothing new is allocated")
            self._failed = upto
            self._end_write()
            await asyncio.sleep(self._options.retry)
        else:
            self._log_recovery()
            self._acknowledge(batch, events)
            self._written = upto
            self._end_write()

    def _end_write(self) -> None:
        self._ended.set()
        self._ended = asyncio.Event()

    def _snapshot(self, events: list[LedgerEvent]) -> Snapshot:
        now = self._options.snapshot()
        mark = self._history.mark + len(events)
        state = msgspec.structs.replace(now.state, mark=mark, recent=self._history.retained(events))
        return Snapshot(state, now.healthy)

    def _log_recovery(self) -> None:
        if self._logged_error:
            self._options.log("device checkpoint writable again")
        self._logged_error = ""

    def _acknowledge(self, batch: list[PendingChange], events: list[LedgerEvent]) -> None:
        self._writing = []
        for event in events:
            self._history.append(event)
            self._options.publish(event)
        for change in batch:
            if not change.done.done():
                change.done.set_result(None)

    def _fail(self, batch: list[PendingChange], why: str) -> None:
        """Take back admissions; keep releases and updates pending until the disk works."""
        if why != self._logged_error:
            self._options.log(why)  # once: the log may be on the same full disk
        for change in batch:
            if change.new:
                self._options.undo(change.record)
                if not change.done.done():
                    change.done.set_exception(CheckpointNotWritten(why))
        self._pending = [change for change in batch if not change.new] + self._pending
        self._writing = []
        self._logged_error = why
