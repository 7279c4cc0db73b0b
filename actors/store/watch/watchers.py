"""Watchers, and how changes become their responses. Pure."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from actors.store.model.types import FOREVER, KeyChange
from actors.store.mvcc.operations import to_wire
from protocols.wire import etcd_pb2 as pb
from protocols.wire import mvcc_pb2

RESPONSE_BYTES = 1024 * 1024
"""Size up to which revisions share a response; one revision is never split without `fragment`."""
FRAGMENT_BYTES = 2 * 1024 * 1024


class Watcher(msgspec.Struct):
    """One watch of a stream."""

    id: int
    key: bytes
    end: bytes
    next_revision: int
    """Every event below this revision is sent or queued."""
    prev_kv: bool = False
    progress: bool = False
    no_put: bool = False
    no_delete: bool = False
    fragment: bool = False
    synced: bool = False
    """True if the watcher gets live events; otherwise it continues from the log."""
    busy: bool = False
    """True if it had events since the last progress tick."""

    def wanted(self, changes: Iterable[KeyChange]) -> list[KeyChange]:
        """Return those of its keys that it has not seen. Each watcher asks about each change, so most end here."""
        key, end = self.key, self.end
        if not end:
            mine = [change for change in changes if change.kv.key == key]
        else:
            mine = [change for change in changes if key <= change.kv.key and (end == FOREVER or change.kv.key < end)]
        return [
            change
            for change in mine
            if change.revision >= self.next_revision and not (self.no_delete if change.deleted else self.no_put)
        ]


def make_watcher(request: pb.WatchCreateRequest, watch_id: int, revision: int) -> Watcher:
    """Return the watcher for a request; without start revision it begins at the next one."""
    return Watcher(
        id=watch_id,
        key=request.key or b"\0",
        end=request.range_end,
        next_revision=request.start_revision if request.start_revision > 0 else revision + 1,
        prev_kv=request.prev_kv,
        progress=request.progress_notify,
        no_put=pb.WatchCreateRequest.NOPUT in request.filters,
        no_delete=pb.WatchCreateRequest.NODELETE in request.filters,
        fragment=request.fragment,
    )


def empty_range(key: bytes, end: bytes) -> bool:
    """Return True for a range that no key can be in, which etcd rejects for watches."""
    return bool(end) and end != b"\0" and end <= key


class Response(msgspec.Struct, frozen=True):
    """A response in a stream's queue, with its number of events and bytes."""

    message: pb.WatchResponse
    events: int = 0
    size: int = 0


def responses(watcher: Watcher, changes: Iterable[KeyChange], header: pb.ResponseHeader) -> Iterator[Response]:
    """Return changes that the watcher wants, split between revisions; the last response has the header's revision."""
    groups = list(_groups(changes))
    for group in groups:
        message = pb.WatchResponse(watch_id=watcher.id, events=[_event(change, watcher.prev_kv) for change in group])
        message.header.CopyFrom(header)
        if group is not groups[-1]:
            message.header.revision = group[-1].revision
        yield from _pieces(message, sum(change.size for change in group), watcher.fragment)


def _groups(changes: Iterable[KeyChange]) -> Iterator[list[KeyChange]]:
    group: list[KeyChange] = []
    size = 0
    for change in changes:
        if size >= RESPONSE_BYTES and change.revision != group[-1].revision:
            yield group
            group, size = [], 0
        group.append(change)
        size += change.size
    if group:
        yield group


def _pieces(message: pb.WatchResponse, size: int, fragment: bool) -> Iterator[Response]:
    if not fragment or message.ByteSize() <= FRAGMENT_BYTES:
        yield Response(message, len(message.events), size)
        return
    events = list(message.events)
    del message.events[:]
    while events:
        piece = pb.WatchResponse()
        piece.CopyFrom(message)
        taken = _fitting(events)
        piece.events.extend(events[:taken])
        events = events[taken:]
        piece.fragment = bool(events)
        yield Response(piece, taken, piece.ByteSize())


def _fitting(events: list[mvcc_pb2.Event]) -> int:
    size = 0
    for count, event in enumerate(events):
        size += event.ByteSize()
        if size > FRAGMENT_BYTES and count:
            return count
    return len(events)


def strip_compacted(changes: Sequence[KeyChange], compacted: int) -> Sequence[KeyChange]:
    """Remove the previous values of changes at the compacted revision, as etcd does, even if not swept yet."""
    if not changes or changes[0].revision > compacted:
        return changes
    return [change if change.revision > compacted else KeyChange(change.kv, None) for change in changes]


def _event(change: KeyChange, prev_kv: bool) -> mvcc_pb2.Event:
    if change.deleted:
        kv = mvcc_pb2.KeyValue(key=change.kv.key, mod_revision=change.revision)
        event = mvcc_pb2.Event(type=mvcc_pb2.Event.DELETE, kv=kv)
    else:
        event = mvcc_pb2.Event(type=mvcc_pb2.Event.PUT, kv=to_wire(change.kv))
    if prev_kv and change.previous is not None:
        event.prev_kv.CopyFrom(to_wire(change.previous))
    return event
