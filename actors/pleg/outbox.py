"""What followers are told, put off to the end of the loop's turn: a burst of events becomes few wake-ups.

Of one pod's statuses within a turn only the newest goes out; every lifecycle event does, after its pod's status.
"""

import asyncio

from actors.pleg.ledger import Change
from protocols.bus import Op, Stream
from protocols.messages.pleg import PodLifecycleEvent, PodStatus

MOST = 64
"""Changes put off at most; the next one goes out with them at once."""


class Outbox:
    def __init__(self, published: dict[str, PodStatus], statuses: Stream, lifecycle: Stream) -> None:
        """`published` is the source of `statuses`: it says what was sent, never more."""
        self._published = published
        self._statuses = statuses
        self._lifecycle = lifecycle
        self._changed: dict[str, PodStatus | None] = {}
        self._events: list[PodLifecycleEvent] = []
        self._changes = 0

    def put(self, change: Change) -> None:
        self._changed[change.uid] = change.status
        self._events += change.events
        self._changes += 1
        if self._changes == 1:
            asyncio.get_running_loop().call_soon(self.flush)
        elif self._changes > MOST:
            self.flush()

    def flush(self) -> None:
        changed, events = self._changed, self._events
        self._changed, self._events, self._changes = {}, [], 0
        for uid, status in changed.items():
            if status is not None:
                self._published[uid] = status
                self._statuses.publish(Op.UPSERT, uid, status)
            elif self._published.pop(uid, None) is not None:
                self._statuses.publish(Op.DELETE, uid, PodStatus(uid=uid))
        for event in events:
            self._lifecycle.publish(Op.APPEND, event.uid, event)
