"""All open watches of one resource: those that ask the same share one channel, so a change is judged once for them."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from actors.apiserver.negotiate import Form
from actors.apiserver.replica.change import Change
from actors.apiserver.replica.replica import Replica
from actors.apiserver.replica.stored import Stored
from actors.apiserver.selection import Selection
from actors.apiserver.types import Resource
from actors.apiserver.watch.encode import bookmark_bytes, event_bytes
from actors.apiserver.watch.flusher import Flusher
from actors.apiserver.watch.index import NODE, Index
from actors.apiserver.watch.transitions import transition
from actors.apiserver.watch.watcher import Watcher


@dataclass(frozen=True)
class Scope:
    """What a watch looks at; equal scopes share a channel."""

    namespace: str
    selection: Selection
    form: Form

    def covers(self, key: str) -> bool:
        """Whether objects under `key` can be of interest at all."""
        name = self.selection.name
        if self.namespace and not key.startswith(f"{self.namespace}/"):
            return False
        return not name or key.rpartition("/")[2] == name


class Channel:
    def __init__(self, resource: Resource, scope: Scope) -> None:
        self.resource = resource
        self.scope = scope
        self.watchers: set[Watcher] = set()

    def offer(self, change: Change) -> int:
        """Queue the change for all watchers that see it; how many they are."""
        seen = transition(change, self.scope.selection) if self.scope.covers(change.key) else None
        if seen is None:
            return 0
        if self.scope.form.view == "Table":
            for watcher in tuple(self.watchers):
                watcher.push(change.rv, self._encoded(change, seen, watcher.virgin))
            return len(self.watchers)
        data = self._encoded(change, seen, first=False)
        for watcher in tuple(self.watchers):
            watcher.push(change.rv, data)
        return len(self.watchers)

    def event_for(self, change: Change, first: bool) -> bytes | None:
        """What a resuming watch gets for a change of the past."""
        seen = transition(change, self.scope.selection) if self.scope.covers(change.key) else None
        return None if seen is None else self._encoded(change, seen, first)

    def _encoded(self, change: Change, seen: tuple[str, Stored], first: bool) -> bytes:
        first = first and self.scope.form.view == "Table"
        key = (seen[0], self.scope.form, first)
        data = change.encoded.get(key)
        if data is None:
            data = change.encoded[key] = event_bytes(self.resource, seen[0], seen[1], self.scope.form, first)
        return data


class Hub:
    """Listens to a replica. `join` and everything before it in one request run without an await in between."""

    def __init__(self, replica: Replica, count_slow: Callable[[], None], count_sent: Callable[[float], None]) -> None:
        self.replica = replica
        self.count_slow = count_slow
        self._count_sent = count_sent
        self.resource = replica.resource
        self.empty = asyncio.Event()
        """No watch is open."""
        self.empty.set()
        self.flusher = Flusher()
        self._channels: dict[Scope, Channel] = {}
        self._index: Index[Channel] = Index(self.resource.fields.get(NODE))
        replica.listen(self._on_change)

    def join(self, scope: Scope, watcher: Watcher) -> Channel:
        channel = self._channels.get(scope)
        if channel is None:
            channel = self._channels[scope] = Channel(self.resource, scope)
            self._index.add(self._index.place_of(scope.namespace, scope.selection), channel)
        channel.watchers.add(watcher)
        self.empty.clear()
        return channel

    def leave(self, channel: Channel, watcher: Watcher) -> None:
        channel.watchers.discard(watcher)
        if not channel.watchers and self._channels.pop(channel.scope, None) is not None:
            self._index.remove(self._index.place_of(channel.scope.namespace, channel.scope.selection), channel)
        if not self._channels:
            self.empty.set()

    def watchers(self) -> Iterator[Watcher]:
        for channel in tuple(self._channels.values()):
            yield from tuple(channel.watchers)

    def bookmark(self, watcher: Watcher) -> None:
        """The replica's mark: every event up to it is in the queue already."""
        rv = self.replica.mark
        watcher.push_bookmark(rv, bookmark_bytes(self.resource, rv, watcher.form))

    def close(self, bookmarks: bool = True) -> None:
        """A last bookmark to each watch, then its end."""
        for watcher in self.watchers():
            if bookmarks:
                self.bookmark(watcher)
            watcher.finish()

    def _on_change(self, change: Change) -> None:
        sent = sum(channel.offer(change) for channel in self._index.concerned(change))
        if sent:
            self._count_sent(sent)
