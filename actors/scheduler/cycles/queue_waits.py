"""The times that pods spend in the queue, as steps of their traces: what each waited for, and how long."""

from protocols.trace import clock, record

SHORTEST_NS = 20_000_000
"""A shorter wait is no step: a pod that is placed at once has none."""
TURN = "its turn"


class QueueWaits:
    """One entry for each pod of the queue that is not being placed."""

    def __init__(self) -> None:
        self._waits: dict[str, tuple[int, str]] = {}

    def begin(self, uid: str, reason: str = TURN) -> None:
        self._waits[uid] = clock(), reason

    def end(self, uid: str) -> None:
        began, reason = self._waits.pop(uid, (0, ""))
        if began and clock() - began >= SHORTEST_NS:
            record(uid, "queue", began, waits_for=reason)

    def forget(self, uid: str) -> None:
        self._waits.pop(uid, None)
