"""One watch stream: its watchers and a bounded queue of responses. No I/O.

- A watcher is synced (live events go into the queue) or behind (it continues from the log once the queue is empty).
- A live batch that does not fit makes its watcher fall behind, so a slow client costs the store a bounded queue.
"""

from collections import deque
from collections.abc import Callable, Sequence

from actors.store.model.options import StoreOptions
from actors.store.model.types import KeyChange
from actors.store.watch.watchers import Response, Watcher, empty_range, make_watcher, responses
from protocols.wire import etcd_pb2 as pb

EMPTY_RANGE = "mvcc: watcher range is empty"
DUPLICATE_ID = "mvcc: duplicate watch ID provided on the WatchStream"


class WatchSession:
    """Watchers of one stream. `header(revision)` makes a response header."""

    def __init__(self, options: StoreOptions, revision: int, header: Callable[[int], pb.ResponseHeader]) -> None:
        self._options, self._header = options, header
        self.revision = revision
        self.watchers: dict[int, Watcher] = {}
        self.queue: deque[Response] = deque()
        self._events = 0
        self._bytes = 0
        self._next_id = 0

    def pop(self) -> pb.WatchResponse:
        response = self.queue.popleft()
        self._events -= response.events
        self._bytes -= response.size
        return response.message

    def _push(self, response: Response) -> None:
        self.queue.append(response)
        self._events += response.events
        self._bytes += response.size

    @property
    def full(self) -> bool:
        return self._events >= self._options.queue_events or self._bytes >= self._options.queue_bytes

    def create(self, request: pb.WatchCreateRequest) -> None:
        fault = self._rejection(request)
        if fault:
            self._respond(pb.WatchResponse(watch_id=-1, created=True, canceled=True, cancel_reason=fault))
            return
        watcher = make_watcher(request, request.watch_id or self._free_id(), self.revision)
        watcher.synced = watcher.next_revision > self.revision
        self.watchers[watcher.id] = watcher
        self._respond(pb.WatchResponse(watch_id=watcher.id, created=True))

    def _rejection(self, request: pb.WatchCreateRequest) -> str:
        if empty_range(request.key or b"\0", request.range_end):
            return EMPTY_RANGE
        return DUPLICATE_ID if request.watch_id and request.watch_id in self.watchers else ""

    def _free_id(self) -> int:
        while self._next_id in self.watchers:
            self._next_id += 1
        self._next_id += 1
        return self._next_id - 1

    def cancel(self, watch_id: int) -> None:
        if self.watchers.pop(watch_id, None) is not None:
            self._respond(pb.WatchResponse(watch_id=watch_id, canceled=True))

    def _respond(self, message: pb.WatchResponse) -> None:
        message.header.CopyFrom(self._header(self.revision))
        self._push(Response(message, 0, 64))

    def request_progress(self) -> None:
        """Answer for all watchers, but only if every one is up to date and none waits for a future revision."""
        up_to_date = all(
            watcher.synced and watcher.next_revision <= self.revision + 1 for watcher in self.watchers.values()
        )
        if self.watchers and up_to_date and not self.full:
            self._respond(pb.WatchResponse(watch_id=-1))

    def tick(self) -> None:
        """Queue progress notifications for idle watchers; called once per progress interval."""
        for watcher in self.watchers.values():
            idle = watcher.progress and watcher.synced and not watcher.busy
            if idle and watcher.next_revision <= self.revision + 1 and not self.full:
                self._respond(pb.WatchResponse(watch_id=watcher.id))
            watcher.busy = False

    def publish(self, changes: Sequence[KeyChange], revision: int) -> None:
        """Queue a commit for the synced watchers, or let them fall behind."""
        self.revision = revision
        for watcher in self.watchers.values():
            if watcher.synced:
                self._deliver(watcher, changes, revision)

    def _deliver(self, watcher: Watcher, changes: Sequence[KeyChange], revision: int) -> None:
        wanted = watcher.wanted(changes)
        if self.full and wanted:
            watcher.synced = False
            return
        self._send(watcher, wanted, revision)

    def _send(self, watcher: Watcher, wanted: list[KeyChange], complete: int) -> None:
        if wanted:
            watcher.busy = True
            for response in responses(watcher, wanted, self._header(self.revision)):
                self._push(response)
        watcher.next_revision = max(watcher.next_revision, complete + 1)

    def behind(self) -> Watcher | None:
        """Return a watcher that must continue from the log."""
        return next((watcher for watcher in self.watchers.values() if not watcher.synced), None)

    def caught_up(self, watcher: Watcher, changes: Sequence[KeyChange], complete: int) -> None:
        """Queue changes read for a watcher that is behind; they are complete up to a revision."""
        if self.watchers.get(watcher.id) is not watcher:
            return  # cancelled while the log was read
        self._send(watcher, watcher.wanted(changes), complete)
        watcher.synced = watcher.next_revision > self.revision

    def compacted(self, watcher: Watcher, revision: int) -> None:
        """Cancel a watcher whose next revision is compacted."""
        if self.watchers.pop(watcher.id, None) is not None:
            message = pb.WatchResponse(watch_id=watcher.id, canceled=True, compact_revision=revision)
            message.header.CopyFrom(self._header(0))
            self._push(Response(message, 0, 64))
