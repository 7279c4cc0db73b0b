"""One open watch: a bounded queue of ready bytes, filled in revision order, drained by its writer."""

import asyncio
from collections.abc import Callable

from actors.apiserver.negotiate import Form

QUEUE_LIMIT = 1000
"""Events a client may lag behind live ones before its watch is ended."""
QUEUE_BYTES = 16 * 1024 * 1024


def _nothing() -> None:
    pass


class Watcher:
    """Invariant: what is queued has revisions in order, and a bookmark's revision covers only what stands before it."""

    __slots__ = ("_pending", "_size", "_wake", "bookmarks", "done", "form", "on_slow", "position", "start", "virgin")

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
        self._pending: list[bytes] = []
        self._size = 0
        self._wake = asyncio.Event()

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
        """No more events; the writer ends the stream once it has written what is queued."""
        self.done = True
        self._wake.set()

    def take(self) -> bytes:
        """All that is queued, as one write."""
        data = b"".join(self._pending) if len(self._pending) != 1 else self._pending[0]
        self._pending.clear()
        self._size = 0
        if not self.done:
            self._wake.clear()
        return data

    async def wait(self) -> None:
        await self._wake.wait()

    def _add(self, data: bytes) -> None:
        self._pending.append(data)
        self._size += len(data)
        self._wake.set()
