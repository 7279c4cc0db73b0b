"""The life of one watch on the wire: headers, what is due at once, then every event as it comes, until its end."""

import asyncio
from collections.abc import Iterator

from actors.apiserver.watch.begin import Opened
from actors.apiserver.watch.hub import Hub
from actors.apiserver.watch.sink import WatchSink
from actors.apiserver.watch.watcher import Watcher

BOOKMARK_SECONDS = 60.0
LAST_BOOKMARK_BEFORE_END = 2.0
BATCH_BYTES = 64 * 1024
SLOW_GRACE_SECONDS = 1.0
"""A watch ended for slowness may take what is under way; after that its connection is dropped."""


async def run_watch(hub: Hub, opened: Opened, sink: WatchSink, seconds: float) -> None:
    """Stream until the client leaves (ConnectionError, cancellation), `seconds` are over, or the hub ends it."""
    clock = Clock(hub, opened.watcher, sink, seconds)
    try:
        for batch in batches(opened.initial):
            await sink.write(batch)
        await _follow(hub, opened.watcher, sink)
        await sink.close()
    finally:
        clock.stop()
        hub.leave(opened.channel, opened.watcher)


async def _follow(hub: Hub, watcher: Watcher, sink: WatchSink) -> None:
    """While the connection takes what comes this task sleeps; it writes after congestion and at the end."""
    while True:
        ended = watcher.done
        data = watcher.take()
        if data:
            await sink.write(data)
        elif ended:
            return
        else:
            await watcher.park(hub.flusher, sink.write_now)


def batches(events: Iterator[bytes]) -> Iterator[bytes]:
    """Join small events into writes of about BATCH_BYTES."""
    batch: list[bytes] = []
    size = 0
    for data in events:
        batch.append(data)
        size += len(data)
        if size >= BATCH_BYTES:
            yield b"".join(batch)
            batch, size = [], 0
    if batch:
        yield b"".join(batch)


class Clock:
    """The timers of one watch: a bookmark each minute and shortly before the end, and the end."""

    def __init__(self, hub: Hub, watcher: Watcher, sink: WatchSink, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._hub, self._watcher, self._sink = hub, watcher, sink
        self._handles = [self._loop.call_later(seconds, watcher.finish)]
        watcher.on_slow = self._slow
        if watcher.bookmarks:
            before_end = seconds - min(LAST_BOOKMARK_BEFORE_END, seconds / 4)
            self._handles.append(self._loop.call_later(before_end, hub.bookmark, watcher))
            self._handles.append(self._loop.call_later(BOOKMARK_SECONDS, self._tick))

    def stop(self) -> None:
        for handle in self._handles:
            handle.cancel()

    def _tick(self) -> None:
        self._hub.bookmark(self._watcher)
        self._handles[2] = self._loop.call_later(BOOKMARK_SECONDS, self._tick)

    def _slow(self) -> None:
        self._hub.count_slow()
        self._handles.append(self._loop.call_later(SLOW_GRACE_SECONDS, self._sink.abort))
