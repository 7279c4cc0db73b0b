"""Checkpoint before acknowledgement: changes are written in their order, and only then published and answered.

Changes that come while the disk works share the next write, so an fsync serves as many pods as wait for it.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from actors.devices.ledger.checkpoint import Snapshot
from actors.devices.model.errors import CheckpointNotWritten
from actors.devices.model.types import PodRecord
from protocols.ledger import History
from protocols.messages.devices import LedgerEvent

LAZY_S = 0.5
"""Nobody waits for the health of devices to be on disk: flapping ones cost two writes a second, not hundreds."""


@dataclass(frozen=True)
class Change:
    """A pod admitted, changed or released, not yet durable."""

    record: PodRecord
    new: bool
    deleted: bool
    done: "asyncio.Future[None]"

    def event(self, mark: int) -> LedgerEvent:
        return LedgerEvent(mark=mark, allocation=self.record.allocation, new=self.new, deleted=self.deleted)


@dataclass(frozen=True)
class CommitOptions:
    snapshot: Callable[[], Snapshot]
    """The state now, with every change handed in so far; position and events are filled in here."""
    save: Callable[[Snapshot], None]
    """Blocks until it is on disk; raises OSError."""
    publish: Callable[[LedgerEvent], None]
    undo: Callable[[PodRecord], None]
    """Take an admission back that could not be written."""
    log: Callable[[str], None]
    retry: float


class Commits:
    """The only writer of the checkpoint; `history` ends at the position on disk."""

    def __init__(self, history: History, options: CommitOptions) -> None:
        self._history = history
        self._options = options
        self._pending: list[Change] = []
        self._dirty = False
        self._wake = asyncio.Event()
        self._trouble = ""
        self._lazy: asyncio.TimerHandle | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    def change(self, record: PodRecord, deleted: bool = False, update: bool = False) -> "asyncio.Future[None]":
        """Called in the same step as the ledger's change. The future ends when it is durable and published.

        A record without its pod's name is durable, but no event: nobody ever heard of that pod."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pending.append(Change(record, not (deleted or update), deleted, done))
        self.touch()
        return done

    def touch(self) -> None:
        """Something else of the state changed: write it soon."""
        self._dirty = True
        self._idle.clear()
        self._wake.set()

    def touch_lazily(self) -> None:
        """Something changed that only a later life reads, and that plugins will tell it anyway."""
        if self._lazy is None:
            self._lazy = asyncio.get_running_loop().call_later(LAZY_S, self._no_longer_lazy)

    def _no_longer_lazy(self) -> None:
        if self._lazy is not None:
            self._lazy.cancel()
            self._lazy = None
            self.touch()

    async def flushed(self) -> None:
        """Wait until all that was handed in is on disk; raises CheckpointNotWritten when the disk refuses it."""
        self._no_longer_lazy()
        await self._idle.wait()
        if self._trouble:
            raise CheckpointNotWritten(self._trouble)

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._dirty:
                await self._write()
            self._idle.set()

    async def _write(self) -> None:
        batch, self._pending, self._dirty = self._pending, [], False
        told = [change for change in batch if change.record.named]
        events = [change.event(mark) for mark, change in enumerate(told, start=self._history.mark + 1)]
        try:
            await asyncio.to_thread(self._options.save, self._snapshot(events))
        except OSError as error:
            self._refuse(batch, f"cannot write the device checkpoint: {error.strerror}; nothing new is allocated")
            await asyncio.sleep(self._options.retry)
        else:
            self._mended()
            self._acknowledge(batch, events)

    def _snapshot(self, events: list[LedgerEvent]) -> Snapshot:
        now = self._options.snapshot()
        mark = self._history.mark + len(events)
        state = msgspec.structs.replace(now.state, mark=mark, recent=self._history.kept(events))
        return Snapshot(state, now.healthy)

    def _mended(self) -> None:
        if self._trouble:
            self._options.log("the device checkpoint is written again")
        self._trouble = ""

    def _acknowledge(self, batch: list[Change], events: list[LedgerEvent]) -> None:
        for event in events:
            self._history.append(event)
            self._options.publish(event)
        for change in batch:
            if not change.done.done():
                change.done.set_result(None)

    def _refuse(self, batch: list[Change], why: str) -> None:
        """Admissions are taken back; releases and updates hold and wait for the disk."""
        if why != self._trouble:
            self._options.log(why)  # once, not at every retry: the log may lie on the same full disk
        for change in batch:
            if change.new:
                self._options.undo(change.record)
                if not change.done.done():
                    change.done.set_exception(CheckpointNotWritten(why))
        self._pending = [change for change in batch if not change.new] + self._pending
        self._dirty = True
        self._trouble = why
        self._idle.set()  # whoever waits is told; the writing goes on
