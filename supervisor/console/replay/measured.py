"""Recorded samples of metrics: read once when a recording is opened, shown up to each time."""

from collections import deque
from collections.abc import Iterable

import msgspec

from protocols.recording import sources
from protocols.recording.frames import Change
from protocols.recording.reader import State, apply_change
from supervisor.console.model.history import KEPT_S
from supervisor.console.model.metrics import Page
from supervisor.console.model.world import World
from supervisor.why.gather.replay import convert

MOST = 20_000
"""Measurements that are retained, the newest: some seven hours of one node. Earlier times have no plots."""


class Recorded(msgspec.Struct, frozen=True):
    """A value of sources.METRICS."""

    at_ms: int
    samples: dict[str, float]


class Measured(msgspec.Struct, frozen=True):
    """The samples of one process at one time; `source` has the prefix of its node."""

    source: str
    instance: str
    recorded: Recorded


class Measurements:
    """Those of all nodes in the order of their times, from the changes of a recording."""

    def __init__(self) -> None:
        self.found: deque[Measured] = deque(maxlen=MOST)
        self._state: State = {}
        self._newest: dict[tuple[str, str], int] = {}

    def add(self, change: Change) -> None:
        """Take a change. Raises RecordingInvalid."""
        if not change.source.endswith(sources.METRICS):
            return
        apply_change(self._state, change)
        value = self._state[change.source].get(change.key)
        recorded = convert(value, Recorded) if value is not None else None
        if recorded and self._newest.get((change.source, change.key)) != recorded.at_ms:  # else a key frame repeats it
            self._newest[change.source, change.key] = recorded.at_ms
            self.found.append(Measured(change.source, change.key, recorded))


class Player:
    """Shows one node's measurements of the last 15 minutes to a world, in the order of their times."""

    def __init__(self, world: World, prefix: str, measured: Iterable[Measured], at_ms: int) -> None:
        self._world = world
        source, since = prefix + sources.METRICS, at_ms - KEPT_S * 1_000
        self._waiting = deque(each for each in measured if each.source == source and each.recorded.at_ms > since)

    def until(self, at_ms: int) -> None:
        while self._waiting and (each := self._waiting[0]).recorded.at_ms <= at_ms:
            self._waiting.popleft()
            self._world.measured(each.instance, Page.of(each.recorded.samples), each.recorded.at_ms / 1_000)
