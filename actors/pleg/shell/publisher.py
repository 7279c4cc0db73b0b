"""Publish pod changes to followers of the bus, and wake RPCs that wait for a newer status.

The first change in an iteration of the event loop is published at once, the others of a burst at its end. Of delayed
statuses of one pod only the newest is sent; every lifecycle event is sent, after its pod's status.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable

from actors.pleg.state_machine.lifecycle_events import Source
from actors.pleg.state_machine.mode import Mode
from actors.pleg.state_machine.status_merger import StatusChange
from protocols.bus import Op, Stream
from protocols.errors import NodeplaneError
from protocols.messages.pleg import PodLifecycleEvent, PodStatus

MAX_DELAYED = 64
"""Most delayed changes; one more publishes them all at once."""
log = logging.getLogger("pleg")


class PodPublisher:
    """Changes of pods that wait for the end of this iteration of the event loop."""

    def __init__(self, published: dict[str, PodStatus], statuses: Stream, lifecycle: Stream) -> None:
        # `published` is the snapshot source of the stream `statuses`: it must hold exactly what was sent.
        self._published = published
        self._statuses = statuses
        self._lifecycle = lifecycle
        self._changed: dict[str, PodStatus | None] = {}
        self._events: list[PodLifecycleEvent] = []
        self._changes = 0
        self._flushed_this_iteration = False

    def put(self, change: StatusChange, source: Source, mode: Mode) -> None:
        for event in change.events:
            log.debug(
                "PodLifecycleEvent source=%s mode=%s pod_uid=%s type=%s id=%s",
                source.value,
                mode.value,
                event.uid,
                event.type,
                event.id,
            )
        self._changed[change.uid] = change.status
        self._events += change.events
        self._changes += 1
        if not self._flushed_this_iteration:
            self._flushed_this_iteration = True
            asyncio.get_running_loop().call_soon(self._end)
            self.flush()
        elif self._changes > MAX_DELAYED:
            self.flush()

    def _end(self) -> None:
        self._flushed_this_iteration = False
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


class NotNewer(NodeplaneError, http=504, grpc="DEADLINE_EXCEEDED"):
    """Raised by GetNewerThan at its deadline: the pod did not become known up to the requested time."""


class Waiters:
    """Calls of GetNewerThan that wait for a change of their pod."""

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
        """Wait until `holds()` is true; return False if it is not within `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                while not holds():
                    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    self._waiting[uid].add(future)
                    await future
        except TimeoutError:
            return holds()
        return True
