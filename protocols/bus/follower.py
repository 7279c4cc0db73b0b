"""A follower's state machine: what to apply, when to sync, when it is stale. Pure: messages in, actions out.

Invariants: an event is delivered only as the successor of the position; any doubt (gap, new epoch, tick ahead) ends in
a sync; `synced` is claimed only when the stream's own topic was heard in this epoch, which proves the subscription.
"""

from collections import deque

import msgspec

from protocols.bus.frames import (
    VERSION,
    BusyFrame,
    Chunk,
    EventFrame,
    MoreFrame,
    ReplayFrame,
    SnapshotFrame,
    SyncFrame,
    cost,
)
from protocols.bus.types import Event
from protocols.process.rates import backoff_delay


class FollowerOptions(msgspec.Struct, frozen=True):
    """Bounds of one followed stream; times in seconds, `buffer_*` limit the events held back during a sync."""

    stream: str
    buffer_events: int = 10_000
    buffer_bytes: int = 64 << 20
    stale_after: float = 3.5
    retry_first: float = 0.02
    retry_most: float = 0.25
    retry_stale: float = 1.0
    chunk_timeout: float = 5.0
    """Seconds between chunks of one answer before a new sync."""


class Heard(msgspec.Struct, frozen=True):
    """A tick, as far as it is about this stream. `proof`: it came on the stream's own topic."""

    epoch: int
    seq: int
    mark: int
    proof: bool


class Link(msgspec.Struct, frozen=True):
    """The connection to the owner's ROUTER came up or went down."""

    up: bool


class Clock(msgspec.Struct, frozen=True):
    """Time passed: sent at `wake_at` and once per second."""


class Refetch(msgspec.Struct, frozen=True):
    """The sink does not trust its state: only a snapshot will do."""


class Send(msgspec.Struct, frozen=True):
    """Action: send this frame to the owner's ROUTER."""

    frame: SyncFrame | MoreFrame


class Deliver(msgspec.Struct, frozen=True):
    """Action: hand this event to the sink; it is the successor of the one before."""

    frame: EventFrame


class Swap(msgspec.Struct, frozen=True):
    """Action: replace the sink's whole state by a snapshot taken at `mark`."""

    items: list[tuple[str, bytes]]
    mark: int


class Marked(msgspec.Struct, frozen=True):
    """Action: the durable position moved to `mark` without an event."""

    mark: int


class Synced(msgspec.Struct, frozen=True):
    """Action: notify the sink that it is up to date with the owner, or no longer known to be."""

    synced: bool


Message = EventFrame | Heard | SnapshotFrame | ReplayFrame | BusyFrame | Link | Clock | Refetch
Action = Send | Deliver | Swap | Marked | Synced


class Follower:
    """State machine of one followed stream: feed it messages with the time, then carry out the actions it returns."""

    def __init__(self, options: FollowerOptions) -> None:
        self._options = options
        self.epoch = 0
        self.seq = 0
        self.mark = 0
        self.synced = False
        self.syncs = 0
        """Syncs begun so far; also the id of the newest."""
        self.wake_at: float | None = None
        self._live = False
        """The position stands and the tail is applied as it comes; False while a sync is under way."""
        self._link = False
        self._settled = 0
        """Newest mark known to be complete: what a sync by mark asks from."""
        self._partial = 0
        """Events applied past `_settled`: a replay by mark repeats them, and they are skipped."""
        self._proven = 0
        self._tick = Heard(0, 0, 0, False)
        self._heard_at = float("-inf")
        self._tries = 0
        """Syncs asked for or put off since the last success."""
        self._chunks: list[Chunk] = []
        self._held: deque[EventFrame] = deque()
        self._held_bytes = 0
        self._out: list[Action] = []

    @property
    def heard_at(self) -> float:
        """Time of the owner's last position report; minus infinity: never."""
        return self._heard_at

    def accept(self, frame: EventFrame) -> bool:
        """Apply an event fast; return True if `frame` was the expected next event of a synced stream.

        It then counts as applied, and the caller delivers it. Otherwise nothing changed, and step() must handle it.
        """
        if not self.synced or frame.seq != self.seq + 1 or frame.epoch != self.epoch:
            return False
        self.seq = frame.seq
        if frame.mark:
            self._advance_mark(frame.mark)
        return True

    def accept_tick(self, epoch: int, position: tuple[int, int], now: float) -> bool:
        """Fast path: return True when a synced stream misses nothing up to this tick.

        Its mark then counts as reached, and the caller reports it if it is new. Otherwise nothing changed, and step()
        must handle the tick.
        """
        seq, mark = position
        if not self.synced or not self._live or seq != self.seq or epoch != self.epoch:
            return False
        self._heard_at = now
        if mark > self.mark:
            self.mark = mark
        self._settled, self._partial, self._tries = self.mark, 0, 0
        return True

    def step(self, message: Message, now: float) -> list[Action]:
        self._out = []
        if isinstance(message, Event):
            self._on_event(message, now)
        elif isinstance(message, Heard):
            self._on_tick(message, now)
        elif isinstance(message, SnapshotFrame | ReplayFrame):
            self._on_chunk(message, now)
        elif isinstance(message, BusyFrame):
            self._on_busy(message, now)
        elif isinstance(message, Link):
            self._on_link(message.up, now)
        elif isinstance(message, Refetch):
            self._forget_position()
            self._begin(now)
        else:
            self._on_clock(now)
        return self._out

    def _advance(self, frame: EventFrame) -> None:
        if frame.seq:
            self.seq = frame.seq
        if frame.mark:
            self._advance_mark(frame.mark)

    def _advance_mark(self, mark: int) -> None:
        if mark > self.mark:
            self._settled, self.mark, self._partial = self.mark, mark, 1
        elif mark > self._settled:
            self._partial += 1

    def _deliver(self, frame: EventFrame) -> None:
        self._advance(frame)
        self._out.append(Deliver(frame))

    def _on_event(self, frame: EventFrame, now: float) -> None:
        self._proven = max(self._proven, frame.epoch)
        if not self._live:
            self._hold(frame)
        elif self._take(frame):
            self._settle(now)
        else:
            self._hold(frame)
            self._begin(now)

    def _take(self, frame: EventFrame) -> bool:
        """Deliver the next event, drop what is old; False when something is missing before it."""
        if frame.epoch != self.epoch:
            return frame.epoch < self.epoch
        if frame.seq == self.seq + 1:
            self._deliver(frame)
        return frame.seq <= self.seq

    def _hold(self, frame: EventFrame) -> None:
        """Keep the newest: if a sync's answer does not reach the oldest held, that gap starts another sync."""
        self._held.append(frame)
        self._held_bytes += cost(frame)
        while len(self._held) > self._options.buffer_events or self._held_bytes > self._options.buffer_bytes:
            self._held_bytes -= cost(self._held.popleft())

    def _on_tick(self, tick: Heard, now: float) -> None:
        if tick.epoch < self.epoch:
            return
        self._tick = tick
        self._heard_at = now
        if tick.proof:
            self._proven = max(self._proven, tick.epoch)
        if not self._live:
            if self._link and not self._chunks and tick.epoch != self.epoch:
                self._hurry(now)
        elif tick.epoch > self.epoch or tick.seq > self.seq:
            self._begin(now)
        else:
            self._take_mark(tick)
            self._settle(now)

    def _hurry(self, now: float) -> None:
        """Sync at the first retry interval again: an owner that was busy or not ready mentions the stream."""
        if self.wake_at is None or self.wake_at > now + self._options.retry_first:
            self._tries, self.wake_at = 1, now + self._options.retry_first

    def _take_mark(self, tick: Heard) -> None:
        if tick.seq != self.seq:
            return
        if tick.mark > self.mark:
            self.mark = tick.mark
            self._out.append(Marked(tick.mark))
        self._settled, self._partial = self.mark, 0

    def _begin(self, now: float) -> None:
        """Start a sync. The first goes out at once; those that follow without success wait longer each time."""
        self._live = False
        self._set_synced(False)
        self._chunks = []
        self.syncs += 1
        if not self._link:
            self.wake_at = None
        elif self._tries:
            self._back_off(now)
        else:
            self._ask(now)

    def _ask(self, now: float) -> None:
        sync = SyncFrame(VERSION, self.syncs, self._options.stream, self.epoch, self.seq, self._settled)
        self._out.append(Send(sync))
        self._back_off(now)

    def _back_off(self, now: float) -> None:
        silent = now - self._heard_at > self._options.stale_after
        most = self._options.retry_stale if silent and self.epoch else self._options.retry_most
        self._tries += 1
        self.wake_at = now + backoff_delay(self._tries, self._options.retry_first, most)

    def _on_busy(self, busy: BusyFrame, now: float) -> None:
        if busy.id == self.syncs and not self._live:
            self.syncs += 1
            self.wake_at = now + max(self._options.retry_first, busy.retry_ms / 1000)

    def _on_link(self, up: bool, now: float) -> None:
        """A new connection may be a new owner: always ask. A lost one leaves what we have; silence makes it stale."""
        self._link = up
        self._tries = 0
        if up:
            self._begin(now)
        else:
            self._chunks = []
            self.wake_at = None

    def _on_chunk(self, chunk: Chunk, now: float) -> None:
        if chunk.id != self.syncs or self._live:
            return
        if chunk.index != len(self._chunks) or (self._chunks and type(chunk) is not type(self._chunks[0])):
            self._begin(now)
            return
        self._chunks.append(chunk)
        if chunk.last:
            self._complete(now)
        else:
            self.wake_at = now + self._options.chunk_timeout
            self._out.append(Send(MoreFrame(VERSION, chunk.id, chunk.stream, chunk.index)))

    def _complete(self, now: float) -> None:
        chunks, self._chunks = self._chunks, []
        end = chunks[-1]
        if not self._apply(chunks):
            self._forget_position()
            self._begin(now)
            return
        self.epoch, self.seq = end.epoch, end.seq
        self.mark = self._settled = end.mark
        self._partial = 0
        self._live = True
        self.wake_at = None
        self._drain(now)

    def _forget_position(self) -> None:
        """Make the next sync bring a snapshot."""
        self.epoch, self.seq, self.mark, self._settled, self._partial = 0, 0, 0, 0, 0

    def _apply(self, chunks: list[Chunk]) -> bool:
        items = [pair for chunk in chunks if isinstance(chunk, SnapshotFrame) for pair in chunk.items]
        if isinstance(chunks[-1], SnapshotFrame):
            self._out.append(Swap(items, chunks[-1].mark))
            return True
        events = [event for chunk in chunks if isinstance(chunk, ReplayFrame) for event in chunk.events]
        return self._replay(events, chunks[-1])

    def _replay(self, events: list[EventFrame], end: Chunk) -> bool:
        """Apply the events of a sync's answer; return False if one is missing.

        An event with a seq must follow the position. Those without one (seq 0, a replay by mark) begin at the unsettled
        mark; events of it that were applied before are skipped.
        """
        skip, mark = self._partial, self.mark
        for event in events:
            if event.seq == 0 and skip and event.mark == mark:
                skip -= 1
            elif event.seq == 0 or (event.epoch == self.epoch and event.seq == self.seq + 1):
                self._deliver(event)
            else:
                return False
        if end.mark > self.mark:
            self._out.append(Marked(end.mark))
        return bool(events and events[-1].seq == 0) or end.epoch != self.epoch or end.seq == self.seq

    def _drain(self, now: float) -> None:
        """Apply events held back past the new position, then handle the newest tick as if it came now."""
        while self._held:
            if not self._take(self._held[0]):
                self._begin(now)
                return
            self._held_bytes -= cost(self._held.popleft())
        if self._tick.epoch > self.epoch or (self._tick.epoch == self.epoch and self._tick.seq > self.seq):
            self._begin(now)
        else:
            self._settle(now)

    def _settle(self, now: float) -> None:
        """Claim `synced` once the topic was received in this epoch; sync until then, each answer brings a tick."""
        if self._proven != self.epoch:
            if self.wake_at is None:
                self._back_off(now)
            return
        if now - self._heard_at > self._options.stale_after:
            self._heard_at = now
        self._tries = 0
        self.wake_at = None
        self._set_synced(True)

    def silent(self, now: float) -> bool:
        """Return True when a synced stream has become stale: send Clock."""
        return self.synced and now - self._heard_at > self._options.stale_after

    def _on_clock(self, now: float) -> None:
        if self.silent(now):
            self._begin(now)
        elif self.wake_at is not None and now >= self.wake_at:
            self._on_timeout(now)

    def _on_timeout(self, now: float) -> None:
        if self._live or self._chunks:
            self._live = False
            self._chunks = []
            self.syncs += 1
        self._ask(now)

    def _set_synced(self, synced: bool) -> None:
        if synced != self.synced:
            self.synced = synced
            self._out.append(Synced(synced))
