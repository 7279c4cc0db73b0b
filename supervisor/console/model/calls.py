"""The last calls of a device plugin or DRA driver, as `nodeplane calls -f` prints them."""

from collections import deque
from collections.abc import Iterator

from protocols.messages.calls import CallRecord
from supervisor.calls.client import CallBatch
from supervisor.calls.repeats import RepeatFilter

MAX_CALLS = 100


class Calls:
    """Bounded by MAX_CALLS. Callers pass the time in seconds."""

    def __init__(self) -> None:
        self._repeats = RepeatFilter()
        self._ended: deque[CallRecord] = deque(maxlen=MAX_CALLS)
        self._pending: tuple[CallRecord, ...] = ()

    def take(self, batch: CallBatch, now: float) -> None:
        """Add what a follower received; what was recorded before a restart of the device manager is lost there, too."""
        if batch.restarted:
            self._ended.clear()
            self._repeats = RepeatFilter()
        for record in batch.records:
            self._ended.extend(self._repeats.add(record, now))
        self._ended.extend(self._repeats.due(now))
        self._pending = batch.pending

    def __len__(self) -> int:
        return len(self._pending) + len(self._ended)

    def newest_first(self) -> Iterator[CallRecord]:
        """Yield calls in progress, then those that ended."""
        yield from reversed(self._pending)
        yield from reversed(self._ended)
