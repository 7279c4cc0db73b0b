"""The beginning of a watch: from the window, from the current state, or at a revision yet to come."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator

import msgspec

from actors.apiserver.api.errors import Expired, InternalError
from actors.apiserver.api.request.query import ListOptions
from actors.apiserver.api.stored import Stored
from actors.apiserver.replica.window import Change
from actors.apiserver.watch.channel import bookmark_bytes, error_bytes, event_bytes
from actors.apiserver.watch.hub import Hub
from actors.apiserver.watch.scope import Scope
from actors.apiserver.watch.watcher import PAUSE, Watcher
from protocols.errors import NodeplaneError
from protocols.kinds.served.row import Served
from protocols.messages.objects import ADDED
from protocols.process.tasks import Tasks, restarted

PAUSE_EVERY = 250
"""Objects or changes that are matched between two pauses: long initial events must not hold the event loop."""


class Opened(msgspec.Struct, frozen=True):
    """A watch that joined its channel: nothing that changes from now on is missed."""

    watcher: Watcher
    initial: Iterator[bytes]
    """Written before queued events. Encoded lazily, but fixed in content when the watch joined."""


def wants_state(options: ListOptions) -> bool:
    """Return True if the stream begins with all current objects as ADDED events."""
    if options.initial_events is not None:
        return options.initial_events
    return not options.version


def open_watch(hub: Hub, scope: Scope, options: ListOptions) -> Opened:
    """Join a hub without a gap: there is no await between reading the replica and joining. Raises Expired."""
    replica = hub.replica
    if wants_state(options):
        watcher = hub.join(scope, replica.mark, options.bookmarks)
        return Opened(watcher, _whole(watcher, _state(hub, scope, watcher)))
    start = options.version or replica.mark
    if start < replica.window.floor:
        hub.meter.expired()
        raise Expired(f"too old resource version: {start} ({replica.window.floor})")
    watcher = hub.join(scope, start, options.bookmarks)
    return Opened(watcher, _whole(watcher, _changed(hub, watcher, replica.window.since(start))))


def _whole(watcher: Watcher, initial: Iterator[bytes]) -> Iterator[bytes]:
    """Yield initial events; if one cannot be encoded, an ERROR event, which ends the watch."""
    try:
        yield from initial
    except Exception as error:  # a bug, or an object that another server has stored
        logging.getLogger(__name__).exception("an initial event of a watch cannot be encoded")
        fault = InternalError(f"{type(error).__name__}: {error}")
        watcher.done, watcher.reusable = True, False
        yield error_bytes(fault.status, watcher.channel.scope.form)


def _state(hub: Hub, scope: Scope, watcher: Watcher) -> Iterator[bytes]:
    replica = hub.replica
    prefix = f"{scope.namespace}/" if scope.namespace else ""
    held = replica.objects.selected(prefix, scope.selection.name)
    end = bookmark_bytes(hub.resource, replica.mark, scope.form, initial_end=True) if watcher.bookmarks else b""
    return _added(hub, watcher, held, end)


def _added(hub: Hub, watcher: Watcher, held: list[Stored], end: bytes) -> Iterator[bytes]:
    """Yield ADDED events, and PAUSE where the event loop may go on with other work."""
    scope, sent, size = watcher.channel.scope, 0, 0
    for number, stored in enumerate(held, 1):
        if scope.selection.matches(stored):
            data = event_bytes(hub.resource, ADDED, stored, scope.form, first=not sent)
            watcher.nothing_sent = False
            sent, size = sent + 1, size + len(data)
            yield data
        if number % PAUSE_EVERY == 0:
            yield PAUSE
    hub.meter.replayed(sent, size)
    if end:
        yield end


def _changed(hub: Hub, watcher: Watcher, changes: list[Change]) -> Iterator[bytes]:
    sent = size = 0
    for number, change in enumerate(changes, 1):
        data = watcher.channel.event_for(change, first=not sent)
        if data is not None:
            watcher.nothing_sent = False
            watcher.position = max(watcher.position, change.rv)
            sent, size = sent + 1, size + len(data)
            yield data
        if number % PAUSE_EVERY == 0:
            yield PAUSE
    hub.meter.replayed(sent, size)


WAIT_SECONDS = 2.0
"""Seconds a watch may wait for its revision before the store is asked for its own."""

Revision = Callable[[Served], Awaitable[int]]
"""Return the current revision of the resource's store. Raises NodeplaneError while it is away."""


class FutureWatches:
    """Watches from a revision that their replica has not reached yet.

    Usually another process was ahead for a moment. If the store itself does not reach the revision, the client's
    revision belongs to a history that was replaced. Its watch would stay silent, so it ends with 410.
    """

    def __init__(self, revision: Revision) -> None:
        self._revision = revision
        self._tasks = Tasks()
        self._waiting: dict[Watcher, Hub] = {}
        self._checking: asyncio.Task[None] | None = None

    def add(self, hub: Hub, watcher: Watcher) -> None:
        if watcher.start <= hub.replica.mark:
            return
        self._waiting[watcher] = hub
        if self._checking is None or self._checking.done():
            self._checking = self._tasks.start(restarted(self._run, "future watches"), "future watches")

    def close(self) -> None:
        self._tasks.cancel()

    async def _run(self) -> None:
        while self._waiting:
            await asyncio.sleep(WAIT_SECONDS)
            for watcher, hub in tuple(self._waiting.items()):
                if watcher.done or watcher.start <= hub.replica.mark:
                    del self._waiting[watcher]
            await asyncio.gather(*(self._check(hub) for hub in set(self._waiting.values())))

    async def _check(self, hub: Hub) -> None:
        """End the hub's watches whose revision the store has not reached: one call for all of them."""
        waiting = [watcher for watcher, its in self._waiting.items() if its is hub]
        try:
            revision = await self._revision(hub.resource)
        except NodeplaneError:
            return
        for watcher in waiting:
            if watcher.start > revision and self._waiting.pop(watcher, None) is not None:
                hub.expire(watcher)
