"""Recorded metrics, modes and latencies that screens plot: read when a recording is opened, shown up to each time."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import msgspec

from protocols.kinds.table import PODS
from protocols.messages import pleg
from protocols.messages.objects import stream_of
from protocols.messages.pleg import PlegState, PodLifecycleEvent
from protocols.recording import sources
from protocols.recording.delta import FIELDS, SET
from protocols.recording.frames import RecordedChange, convert
from protocols.recording.reader import Recording, State, apply_change
from supervisor.console.model.history import KEPT_S
from supervisor.console.model.metrics import Page
from supervisor.console.model.world import World

KEPT_MS = KEPT_S * 1_000
MOST = 20_000
"""Measurements that are retained, the newest: some seven hours of one node. Earlier times have no plots."""
MOST_STATUSES = 100_000
MODE = f"{pleg.OWNER}/{pleg.PLEG_STATE}"
_PODS = stream_of(PODS.group, PODS.plural)


class Recorded(msgspec.Struct, frozen=True):
    """A value of sources.METRICS."""

    at_ms: int
    samples: dict[str, float]


class Measured(msgspec.Struct, frozen=True):
    """The samples of one process at one time; `source` has the prefix of its node."""

    source: str
    instance: str
    recorded: Recorded


class History:
    """Metrics and PLEG modes of all nodes, and statuses of pods, in the order of their times."""

    def __init__(self) -> None:
        self.measured: deque[Measured] = deque(maxlen=MOST)
        self.modes: deque[tuple[int, str, PlegState]] = deque(maxlen=MOST)
        """Time, source with the prefix of the node, state."""
        self.statuses: deque[tuple[int, str]] = deque(maxlen=MOST_STATUSES)
        """Times and uids of pods whose status changed."""
        self._state: State = {}
        self._newest: dict[tuple[str, str], int] = {}
        self._uids: dict[str, str] = {}

    def add(self, change: RecordedChange) -> None:
        """Append a change. Raises RecordingInvalid."""
        if change.source == _PODS:
            self._add_pod(change)
        elif change.source.endswith((sources.METRICS, MODE)):
            apply_change(self._state, change)
            value = self._state[change.source].get(change.key)
            if value is not None and change.source.endswith(MODE):
                self.modes.append((change.at_ms, change.source, convert(value, PlegState)))
            elif value is not None:
                self._add_metrics(change, convert(value, Recorded))

    def _add_metrics(self, change: RecordedChange, recorded: Recorded) -> None:
        if self._newest.get((change.source, change.key)) != recorded.at_ms:  # else a key frame repeats it
            self._newest[change.source, change.key] = recorded.at_ms
            self.measured.append(Measured(change.source, change.key, recorded))

    def _add_pod(self, change: RecordedChange) -> None:
        match change.delta:
            case [kind, {"metadata": {"uid": str(uid)}}] if kind == SET:
                self._uids[change.key] = uid
            case [kind, {"status": _}] if kind == FIELDS and change.key in self._uids:
                self.statuses.append((change.at_ms, self._uids[change.key]))
            case [_]:
                self._uids.pop(change.key, None)


Step = tuple[int, Callable[[float], None]]
"""Time in ms, and what shows something of that time, called with it in s."""


def steps(world: World, recording: Recording, history: History, prefix: str, at_ms: int) -> Iterator[Step]:
    """Yield what one node's screens show of the 15 minutes before a time, and its modes. Raises RecordingInvalid."""
    since = at_ms - KEPT_MS
    for measured in history.measured:
        if measured.source == prefix + sources.METRICS and since < measured.recorded.at_ms <= at_ms:
            yield (
                measured.recorded.at_ms,
                partial(world.measured, measured.instance, Page.of(measured.recorded.samples)),
            )
    for at, source, mode in history.modes:
        if source == prefix + MODE and at <= at_ms:
            yield at, partial(world.pleg.switched, mode)
    for entry, _ in recording.entries((prefix + sources.LIFECYCLE,), at_ms, since):
        yield entry.at_ms, partial(world.pleg.happened, convert(entry.value, PodLifecycleEvent))
    for at, uid in history.statuses:
        if since < at <= at_ms:
            yield at, partial(world.pleg.status_changed, uid)


class Player:
    """Applies steps in the order of their times; steps of one time in the given order."""

    def __init__(self, found: Iterable[Step]) -> None:
        self._waiting = deque(sorted(found, key=lambda step: step[0]))

    def until(self, at_ms: int) -> None:
        while self._waiting and self._waiting[0][0] <= at_ms:
            at, show = self._waiting.popleft()
            show(at / 1_000)
