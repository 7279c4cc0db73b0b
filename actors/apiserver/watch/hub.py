"""All open watches of one resource, in channels: what a change may concern is found without asking each."""

import asyncio
from collections.abc import Callable, Iterator

import msgspec

from actors.apiserver.api.errors import Expired
from actors.apiserver.api.objects import Obj
from actors.apiserver.api.resource import Resource
from actors.apiserver.replica.replica import Replica
from actors.apiserver.replica.window import Change
from actors.apiserver.watch.bookmarks import BookmarkPacer, BookmarkSweep, ChangeVolume
from actors.apiserver.watch.channel import Channel, ChannelOptions, error_bytes
from actors.apiserver.watch.scope import NODE, Index, Scope
from actors.apiserver.watch.timers import Alarms, Flusher
from actors.apiserver.watch.watcher import Meter, Watcher

HISTORY_REPLACED = "The resourceVersion for the provided watch is too old: the history it is of was replaced."


class HubOptions(msgspec.Struct, frozen=True):
    """What all hubs of a process share, but for the meter."""

    meter: Meter = msgspec.field(default_factory=Meter)
    alarms: Alarms = msgspec.field(default_factory=Alarms)
    flusher: Flusher = msgspec.field(default_factory=Flusher)
    volume: ChangeVolume = msgspec.field(default_factory=ChangeVolume)


class Hub:
    """Listens to a replica. `join` and everything before it in one request run without an await in between."""

    def __init__(self, replica: Replica, options: HubOptions, resource: Resource | None = None) -> None:
        """`resource`: which of the rows with these objects; the one that stores them if none is given."""
        self.replica = replica
        self.meter = options.meter
        self.alarms = options.alarms
        self.resource = resource or replica.resource
        self.empty = asyncio.Event()
        """No watch is open."""
        self.empty.set()
        self._channels: dict[Scope, Channel] = {}
        self._options = ChannelOptions(self.resource, replica, options.flusher, options.meter, self._emptied)
        self._pace = BookmarkPacer(options.volume)
        self._sweep = BookmarkSweep(self, options.flusher)
        self._index: Index[Channel] = Index(self._node_of())
        replica.listen(self._on_change)
        replica.listen_mark(self._on_mark)
        replica.listen_history_replaced(self._expire)

    def _node_of(self) -> Callable[[Obj], str] | None:
        """Stored objects are looked at, so fields of another form are of no use."""
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

    def bookmark(self, watcher: Watcher) -> bool:
        """The replica's mark: every event up to it has been offered already."""
        return watcher.bookmark(self.replica.mark)

    def close(self, bookmarks: bool = True) -> None:
        """A last bookmark to each watch, then its end, and its connection's."""
        for watcher in self.watchers():
            if bookmarks and watcher.bookmarks:
                self.meter.last_bookmark(self.bookmark(watcher))
            watcher.finish(reusable=False)

    def end_untrusted(self) -> None:
        """The CAs of clients were replaced: end the watches that earlier ones vouched for."""
        for watcher in self.watchers():
            watcher.end_untrusted()

    def retire(self) -> None:
        """Its resource is served no more, or differently: nothing new is told, open watches end."""
        self.replica.forget(self._on_change)
        self.replica.unlisten_mark(self._on_mark)
        self.replica.unlisten_history_replaced(self._expire)
        self.close()

    def _expire(self) -> None:
        """The history every open watch stands on is gone: its client must list again."""
        for watcher in self.watchers():
            self.expire(watcher)

    def expire(self, watcher: Watcher) -> None:
        """End a watch with 410."""
        self.meter.expired()
        watcher.fail(error_bytes(Expired(HISTORY_REPLACED).status, watcher.channel.scope.form))

    def _emptied(self, channel: Channel) -> None:
        if self._channels.pop(channel.scope, None) is not None:
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
        for channel in self._index.concerned(change):
            channel.offer(change)
