"""The hub of one resource: all its open watches in channels, and an index to the channels of a change."""

import asyncio
from collections.abc import Callable, Iterator

import msgspec

from actors.apiserver.api.errors import Expired
from actors.apiserver.api.request.traces import is_pods, record_watched
from actors.apiserver.replica.replica import Replica
from actors.apiserver.replica.window import Change
from actors.apiserver.watch.backlog import Backlog
from actors.apiserver.watch.bookmarks import BookmarkPacer, BookmarkSweep, ChangeVolume
from actors.apiserver.watch.channel import Channel, ChannelOptions, error_bytes
from actors.apiserver.watch.scope import NODE, Index, Scope
from actors.apiserver.watch.timers import Alarms, Flusher
from actors.apiserver.watch.watcher import Meter, Watcher
from protocols.kinds.served.row import Served
from protocols.kube.meta import Object

HISTORY_REPLACED = "The resourceVersion for the provided watch is too old: the history it is of was replaced."


class HubOptions(msgspec.Struct, frozen=True):
    """Parts that all hubs of a process share, except for the meter."""

    meter: Meter = msgspec.field(default_factory=Meter)
    alarms: Alarms = msgspec.field(default_factory=Alarms)
    flusher: Flusher = msgspec.field(default_factory=Flusher)
    volume: ChangeVolume = msgspec.field(default_factory=ChangeVolume)
    backlog: Backlog = msgspec.field(default_factory=Backlog)


class Hub:
    """Pass the changes of a replica on to watches.

    A request must not await between reading the replica and `join`, or its watch would miss changes.
    """

    def __init__(self, replica: Replica, options: HubOptions, resource: Served | None = None) -> None:
        """`resource` is the version to serve; by default the replica's own."""
        self.replica = replica
        self.meter = options.meter
        self.alarms = options.alarms
        self.resource = resource or replica.resource
        self.empty = asyncio.Event()
        """Set while no watch is open."""
        self.empty.set()
        self._traced = is_pods(self.resource)
        self._channels: dict[Scope, Channel] = {}
        self._options = ChannelOptions(
            self.resource, replica, options.flusher, options.backlog, options.meter, self._emptied
        )
        self._pace = BookmarkPacer(options.volume)
        self._sweep = BookmarkSweep(self, options.flusher)
        self._index: Index[Channel] = Index(self._node_of())
        replica.listen(self._on_change)
        replica.listen_mark(self._on_mark)
        replica.listen_history_replaced(self._expire)

    def _node_of(self) -> Callable[[Object], str] | None:
        """Return the node getter for the index. It reads stored objects, so converted versions cannot use it."""
        return None if self.resource.converter.changes else self.resource.fields.get(NODE)

    def join(self, scope: Scope, start: int, bookmarks: bool) -> Watcher:
        channel = self._channels.get(scope)
        if channel is None:
            channel = self._channels[scope] = Channel(self._options, scope)
            self._index.add(self._index.place_of(scope.namespace, scope.selection), channel)
        self.empty.clear()
        return Watcher(channel, start, bookmarks)

    def watchers(self) -> Iterator[Watcher]:
        for channel in tuple(self._channels.values()):
            yield from channel.watchers()

    def bookmark(self, watcher: Watcher, *, again: bool = False) -> bool:
        """Send a bookmark at the replica's mark, up to which all events have been offered."""
        return watcher.bookmark(self.replica.mark, again=again)

    def close(self, bookmarks: bool = True) -> None:
        """Send each watch a last bookmark, end it, and close its connection."""
        for watcher in self.watchers():
            if bookmarks and watcher.bookmarks:
                self.meter.last_bookmark(self.bookmark(watcher))
            watcher.finish(reusable=False)

    def end_untrusted(self) -> None:
        """End watches whose client certificates are no longer valid after the CAs were replaced."""
        for watcher in self.watchers():
            watcher.end_untrusted()

    def retire(self) -> None:
        """End all watches and stop listening: the resource is no longer served, or has changed."""
        self.replica.forget(self._on_change)
        self.replica.unlisten_mark(self._on_mark)
        self.replica.unlisten_history_replaced(self._expire)
        self.close()

    def _expire(self) -> None:
        """End all watches with 410: the history was replaced and clients must list again."""
        for watcher in self.watchers():
            self.expire(watcher)

    def expire(self, watcher: Watcher) -> None:
        """End a watch with 410."""
        self.meter.expired()
        watcher.fail(error_bytes(Expired(HISTORY_REPLACED).status, watcher.channel.scope.form))

    def _emptied(self, channel: Channel) -> None:
        if self._channels.get(channel.scope) is channel:  # a lost connection may report a watch that ended before
            del self._channels[channel.scope]
            self._index.remove(self._index.place_of(channel.scope.namespace, channel.scope.selection), channel)
        if not self._channels:
            self.empty.set()

    def _on_mark(self, mark: int) -> None:
        if self._pace.due(mark):
            self._pace.sent(mark)
            if not self.empty.is_set():
                self._sweep.begin(self.watchers())

    def _on_change(self, change: Change) -> None:
        self._pace.changed(change.size)
        kinds = 0
        for channel in self._index.concerned(change):
            channel.offer(change)
            kinds += 1
        if kinds and self._traced and (stored := change.after or change.before) is not None:
            record_watched(stored, kinds)
