"""Which sockets are to be registered, which are, and when to try again. Pure: told the time, touches nothing.

Invariant: one step per path at a time; a path that is bound anew is taken off before it is registered again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from actors.devices.watcher.scan import Stamp

RETRY_FIRST_S, RETRY_MOST_S = 0.5, 122.0


class Kind(Enum):
    REGISTER = "register"
    DEREGISTER = "deregister"


class Step(NamedTuple):
    path: Path
    stamp: Stamp
    kind: Kind


@dataclass
class Entry:
    wanted: Stamp | None = None
    """What the directory shows; None = nothing."""
    actual: Stamp | None = None
    """What is registered."""
    busy: bool = False
    failures: int = 0
    due: float = 0.0


class Progress:
    def __init__(self) -> None:
        self._entries: dict[Path, Entry] = {}

    def seen(self, sockets: Mapping[Path, Stamp], now: float) -> None:
        """All there is now. A new socket is tried at once, but the same path not more often than RETRY_FIRST_S."""
        for path in sockets.keys() - self._entries.keys():
            self._entries[path] = Entry()
        for path, entry in self._entries.items():
            stamp = sockets.get(path)
            if stamp != entry.wanted:
                entry.wanted, entry.failures = stamp, 0
                entry.due = min(entry.due, now + RETRY_FIRST_S)
        self._drop()

    def begin(self, now: float) -> list[Step]:
        """What is to be done now; each is answered by `finished`."""
        steps = [step for path, entry in self._entries.items() if (step := _step(path, entry, now)) is not None]
        for step in steps:
            self._entries[step.path].busy = True
        return steps

    def finished(self, step: Step, good: bool, now: float) -> None:
        """`good` of a registration: its plugin is taken in and told so."""
        entry = self._entries[step.path]
        entry.busy = False
        if step.kind is Kind.DEREGISTER:
            entry.actual = None
        elif good:
            entry.actual, entry.failures, entry.due = step.stamp, 0, now + RETRY_FIRST_S
        else:
            entry.due = now + min(RETRY_FIRST_S * 2 ** min(entry.failures, 10), RETRY_MOST_S)
            entry.failures += 1
        self._drop()

    def next_due(self) -> float | None:
        """When a registration may be tried again; None = nothing waits for the clock."""
        return min((entry.due for entry in self._entries.values() if _waits(entry)), default=None)

    def counts(self) -> dict[Path, tuple[bool, bool]]:
        """Of each socket, whether it is registered and whether it is wanted."""
        return {path: (item.actual is not None, item.wanted is not None) for path, item in self._entries.items()}

    def _drop(self) -> None:
        over = [path for path, item in self._entries.items() if not (item.wanted or item.actual or item.busy)]
        for path in over:
            del self._entries[path]


def _waits(entry: Entry) -> bool:
    return not entry.busy and entry.actual is None and entry.wanted is not None


def _step(path: Path, entry: Entry, now: float) -> Step | None:
    if entry.busy:
        return None
    if entry.actual is not None and entry.actual != entry.wanted:
        return Step(path, entry.actual, Kind.DEREGISTER)
    if entry.wanted is not None and entry.actual is None and entry.due <= now:
        return Step(path, entry.wanted, Kind.REGISTER)
    return None
