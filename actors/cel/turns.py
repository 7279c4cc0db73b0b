"""Whose work is next: owners in turn, and one piece of work of each at a time. Pure."""

from collections import OrderedDict, deque
from typing import Generic, TypeVar

W = TypeVar("W")
QUEUED, QUEUED_PER_OWNER = 1024, 256


class Turns(Generic[W]):
    """Queued work, bounded for all owners and for each."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, deque[W]] = OrderedDict()
        self._busy: set[str] = set()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, owner: str, work: W) -> bool:
        """Queue work; return False when too much of it waits already."""
        waiting = self._waiting.get(owner)
        if self._count >= QUEUED or (waiting is not None and len(waiting) >= QUEUED_PER_OWNER):
            return False
        self._waiting.setdefault(owner, deque()).append(work)
        self._count += 1
        return True

    def next(self) -> tuple[str, W] | None:
        """Return the next work, whose owner is then busy until `done`."""
        owner = next((each for each in self._waiting if each not in self._busy), None)
        if owner is None:
            return None
        waiting = self._waiting.pop(owner)
        work = waiting.popleft()
        if waiting:
            self._waiting[owner] = waiting
        self._count -= 1
        self._busy.add(owner)
        return owner, work

    def done(self, owner: str) -> None:
        self._busy.discard(owner)
