"""Channels: watches with the same scope share the encoding and the writes of a change."""

import sys
import time
from collections.abc import Callable

import msgspec

from actors.apiserver.api.encoding.negotiate import PLAIN, Form
from actors.apiserver.api.encoding.render import dump, render_object
from actors.apiserver.api.stored import Stored, view
from actors.apiserver.replica.replica import Replica
from actors.apiserver.replica.window import Change
from actors.apiserver.watch.backlog import Backlog
from actors.apiserver.watch.scope import Scope, transition
from actors.apiserver.watch.timers import Flusher, chunk
from actors.apiserver.watch.watcher import Meter, Watcher
from protocols.kinds.served.row import Served
from protocols.kube.meta import Object
from protocols.kube.protobuf import event_frame

PAUSE_PER_WATCH, LONGEST_PAUSE = 80e-6, 0.008
"""Seconds between two writes of a channel, for each live watch and at most: ten times what the writes cost."""
SHARED_BY_MANY = 12
"""Live watches above which a channel pauses; for fewer the pause would be below a millisecond, a timer's resolution."""
TURN = 500
"""Live watches that are written to in one turn of the event loop, which takes about 6 ms."""
INITIAL_END = {"k8s.io/initial-events-end": "true"}


def event_bytes(resource: Served, kind: str, stored: Stored, form: Form, first: bool = False) -> bytes:
    """Encode a watch event. Of a table, only the `first` event carries the column definitions.

    That are two if an event is queued while no initial one is encoded: clients take columns whenever they come.
    """
    shown = view(resource, stored)
    if form == PLAIN:
        return b'{"type":"%b","object":%b}\n' % (kind.encode(), shown.json)
    return _frame(kind, render_object(resource, shown.decoded(), form, columns=first), form)


def bookmark_bytes(resource: Served, rv: int, form: Form, initial_end: bool = False) -> bytes:
    """Return an encoded BOOKMARK; with `initial_end` it marks the end of the initial events."""
    metadata: Object = {"resourceVersion": str(rv)}
    if initial_end:
        metadata["annotations"] = INITIAL_END
    body: Object = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
    if form.view == "Table":
        return _frame("BOOKMARK", render_object(resource, body, form, columns=False), form)
    if form.view:
        body.update(kind="PartialObjectMetadata", apiVersion=f"meta.k8s.io/{form.version}")
    return _frame("BOOKMARK", dump(body, form), form)


def error_bytes(status: Object, form: Form = PLAIN) -> bytes:
    """Return an encoded ERROR event."""
    return _frame("ERROR", dump(status, form), form)


def _frame(kind: str, body: bytes, form: Form) -> bytes:
    if form.protobuf:
        return event_frame(kind, body)
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), body)


class ChannelOptions(msgspec.Struct, frozen=True):
    """Dependencies of a channel."""

    resource: Served
    replica: Replica
    flusher: Flusher
    backlog: Backlog
    meter: Meter
    emptied: "Callable[[Channel], None]"
    """Called when the last watch has left."""


class Channel:
    """Open watches with the same scope. A change is matched, encoded and framed once for all of them.

    A live watch shares the channel's writes. A watch that has not caught up yet, or whose connection is congested,
    lags behind and has a queue of its own.

    Pending events become one write, which a part of the live watches gets in each turn of the event loop. A watch that
    wants to go on by itself catches up with the others first.

    Invariant: pending events were offered to every live watch and to no lagging one, but for those that a watch caught
    up with before.
    """

    def __init__(self, options: ChannelOptions, scope: Scope) -> None:
        self.scope = scope
        self.flusher, self.backlog = options.flusher, options.backlog
        self.meter = options.meter
        self._resource = options.resource
        version = options.resource.gvr if options.resource.converter.changes else ""
        self._encoding_key = sys.intern(repr((scope.form, version)))
        """Channels with equal keys share encoded events. A text, since its hash is computed only once."""
        self._replica = options.replica
        self._emptied = options.emptied
        self.live: dict[Watcher, Callable[[bytes], None]] = {}
        """Watches that share the writes, with the bound `write` of their transports: the path of every event."""
        self.lagging: set[Watcher] = set()
        self.position = 0
        """Revision of the newest event offered."""
        self._pending: list[bytes] = []
        self._caught_up: dict[Watcher, int] = {}
        """Live watches that have the first so many of the pending events."""
        self._unwritten: dict[Watcher, bytes] = {}
        """Live watches with what is still to be written to them of the events before the pending ones."""
        self._bookmark = (0, b"")
        self._flush_at = 0.0
        """Time until which new events are gathered."""

    def newest(self) -> int:
        """Return the revision above which all coming events are."""
        return self._replica.mark

    def watchers(self) -> tuple[Watcher, ...]:
        return (*self.live, *self.lagging)

    def offer(self, change: Change) -> None:
        """Queue a change for all watches, if it is in their scope."""
        seen = transition(change, self.scope.selection) if self.scope.covers(change.key) else None
        if seen is None:
            return
        data = self._encoded(change, seen, first=False)
        self.position = change.rv
        if self.live:
            if not self._pending and not self._unwritten:
                self.flusher.schedule(self, self._pause())
            self._pending.append(data)
        count = len(self.live)
        for watcher in tuple(self.lagging):
            first = self._encoded(change, seen, first=True) if watcher.nothing_sent else data
            count += watcher.push(change.rv, first)
        self.meter.sent(count, len(data))

    def event_for(self, change: Change, first: bool) -> bytes | None:
        """Encode a past change for a watch that resumes; None if it is out of scope."""
        seen = transition(change, self.scope.selection) if self.scope.covers(change.key) else None
        return None if seen is None else self._encoded(change, seen, first)

    def flush(self) -> None:
        """Write the pending events to TURN of the live watches, and to the others in later turns."""
        if not self._unwritten:
            self._start()
        for _ in range(min(TURN, len(self._unwritten))):
            watcher, data = self._unwritten.popitem()
            self.live[watcher](data)
        if self._unwritten:
            self.flusher.schedule(self)
            return
        if len(self.live) > SHARED_BY_MANY:
            self._flush_at = time.monotonic() + min(LONGEST_PAUSE, PAUSE_PER_WATCH * len(self.live))
        if self._pending:
            self.flusher.schedule(self, self._pause())

    def _start(self) -> None:
        """Join the pending events to one write for each live watch."""
        pending, self._pending = self._pending, []
        known, self._caught_up = self._caught_up, {}
        if not pending:
            return
        self._unwritten = dict.fromkeys(self.live, chunk(pending))
        for watcher, count in known.items():
            if count < len(pending):
                self._unwritten[watcher] = chunk(pending[count:])
            else:
                del self._unwritten[watcher]

    def catch_up(self, watcher: Watcher) -> None:
        """Write all that was offered to a live watch now."""
        data, pending = self._unwritten.pop(watcher, b""), self._pending[self._caught_up.get(watcher, 0) :]
        if pending:
            self._caught_up[watcher] = len(self._pending)
            data += chunk(pending)
        if data:
            self.live[watcher](data)

    def _pause(self) -> float:
        """Return the seconds for which events are gathered: own writes come one by one, without a batching window."""
        return self._flush_at - time.monotonic() if len(self.live) > SHARED_BY_MANY else 0.0

    def attach(self, watcher: Watcher, write: Callable[[bytes], None]) -> None:
        """Make a watch live that has caught up with all events offered so far."""
        self.lagging.discard(watcher)
        self.live[watcher] = write
        if self._pending:
            self._caught_up[watcher] = len(self._pending)

    def detach(self, watcher: Watcher) -> None:
        """Let a live watch go on with a queue of its own."""
        self.catch_up(watcher)
        watcher.position = max(watcher.position, self.position)
        self._remove(watcher)
        self.lagging.add(watcher)

    def leave(self, watcher: Watcher) -> None:
        self._remove(watcher)
        self.lagging.discard(watcher)
        if not self.live and not self.lagging:
            self._emptied(self)

    def _remove(self, watcher: Watcher) -> None:
        for live in (self.live, self._unwritten, self._caught_up):
            live.pop(watcher, None)

    def bookmark(self, rv: int) -> bytes:
        """Return an encoded bookmark, shared by all watches that are at this revision."""
        if self._bookmark[0] != rv:
            self._bookmark = (rv, bookmark_bytes(self._resource, rv, self.scope.form))
        return self._bookmark[1]

    def _encoded(self, change: Change, seen: tuple[str, Stored], first: bool) -> bytes:
        """Return the encoded event of a change, shared with other channels that have the same encoding key."""
        first = first and self.scope.form.view == "Table"
        key = (seen[0], first, self._encoding_key)
        data = change.encoded.get(key) if change.encoded is not None else None
        if data is None:
            data = event_bytes(self._resource, seen[0], seen[1], self.scope.form, first)
            if change.encoded is not None:
                change.encoded[key] = data
        return data
