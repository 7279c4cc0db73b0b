"""One open watch: a bounded queue of ready bytes, filled in revision order, drained by its connection."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from actors.apiserver.negotiate import Form

QUEUE_LIMIT = 1000
"""Events a client may lag behind live ones before its watch is ended."""
QUEUE_BYTES = 16 * 1024 * 1024


def _nothing() -> None:
    pass


class Wants(Protocol):
    def want(self, watcher: "Watcher") -> None: ...


class Watcher:
    """Invariant: what is queued has revisions in order, and a bookmark's revision covers only what stands before it.

    Its bytes have one writer at a time: its task, or, while the task is parked, the flusher by `direct`.
    """

    __slots__ = (
        "_flusher", "_pending", "_size", "_wake", "bookmarks", "direct", "done", "form", "on_slow", "position", "start",
        "virgin",
    )  # fmt: skip

    def __init__(self, start: int, form: Form, bookmarks: bool) -> None:
        self.start = start
        """Only events above this revision are sent."""
        self.position = start
        self.form = form
        self.bookmarks = bookmarks
        self.virgin = True
        """Nothing has been sent: the first event of a table carries its columns."""
        self.done = False
        self.on_slow: Callable[[], None] = _nothing
        self.direct: Callable[[bytes], bool] | None = None
        """While parked: takes a chunk for the connection, or False when that is congested or gone."""
        self._flusher: Wants | None = None
        self._wake: asyncio.Future[None] | None = None
        self._pending: list[bytes] = []
        self._size = 0

    def push(self, rv: int, data: bytes) -> None:
        """Queue an event; a full queue ends the watch instead."""
        if self.done or rv <= self.start:
            return
        if len(self._pending) >= QUEUE_LIMIT or self._size + len(data) > QUEUE_BYTES:
            self._pending.clear()
            self.finish()
            self.on_slow()
            return
        self.virgin = False
        self.position = rv
        self._add(data)

    def push_bookmark(self, rv: int, data: bytes, forced: bool = False) -> None:
        """Queue a bookmark behind all that is queued; one that moves nothing is left out."""
        if self.done or not self.bookmarks or (rv <= self.position and not forced):
            return
        self.position = max(self.position, rv)
        self._add(data)

    def finish(self) -> None:
        """No more events; the task ends the stream once it has written what is queued."""
        self.done = True
        self._rouse()

    def take(self) -> bytes:
        """All that is queued, as one write."""
        data = b"".join(self._pending) if len(self._pending) != 1 else self._pending[0]
        self._clear()
        return data

    async def park(self, flusher: Wants, direct: Callable[[bytes], bool]) -> None:
        """Leave the writing to the flusher until the watch is done or `direct` refuses. Nothing may be queued."""
        if self.done or self._pending:
            return
        self._flusher, self.direct = flusher, direct
        self._wake = asyncio.get_running_loop().create_future()
        try:
            await self._wake
        finally:
            self._flusher = self.direct = self._wake = None

    def pending_events(self) -> tuple[bytes, ...]:
        return tuple(self._pending)

    def hand_over(self, chunk: bytes) -> None:
        """`chunk` is all that is pending: it goes to the connection, or stays for the task to write."""
        if self.direct is not None and self.direct(chunk):
            self._clear()
        else:
            self._rouse()

    def _add(self, data: bytes) -> None:
        self._pending.append(data)
        self._size += len(data)
        if self._flusher is not None and len(self._pending) == 1:
            self._flusher.want(self)

    def _clear(self) -> None:
        self._pending.clear()
        self._size = 0

    def _rouse(self) -> None:
        """The task writes from now on."""
        self.direct = self._flusher = None
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)
