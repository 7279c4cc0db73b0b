"""What followers are told: the first change of a loop's turn at once, the others of a burst together at its end.

Of one pod's statuses put off only the newest goes out; every lifecycle event does, after its pod's status.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import ClassVar

from actors.pleg.state_machine.status_merger import Change
from protocols.bus import Op, Stream
from protocols.errors import NodeplaneError
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
        self._turn = False
        """A change went out in this turn already."""

    def put(self, change: Change) -> None:
        self._changed[change.uid] = change.status
        self._events += change.events
        self._changes += 1
        if not self._turn:
            self._turn = True
            asyncio.get_running_loop().call_soon(self._end)
            self.flush()
        elif self._changes > MOST:
            self.flush()

    def _end(self) -> None:
        self._turn = False
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


class NotNewer(NodeplaneError):
    """Raised by GetNewerThan at its deadline: nothing later than the asked time became known."""

    http: ClassVar[int] = 504
    grpc: ClassVar[str] = "DEADLINE_EXCEEDED"


class Waiters:
    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Future[None]]] = defaultdict(set)

    def wake(self, uid: str) -> None:
        for future in self._waiting.pop(uid, set()):
            if not future.done():
                future.set_result(None)

    def wake_all(self) -> None:
        for uid in list(self._waiting):
            self.wake(uid)

    async def until(self, uid: str, holds: Callable[[], bool], timeout: float) -> bool:
        """Wait until `holds()`; False when that did not come about within `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                while not holds():
                    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    self._waiting[uid].add(future)
                    await future
        except TimeoutError:
            return holds()
        return True
