"""The state of one watch across reconnects: where to resume, what to request, what to yield. Pure.

With a server that has snapshots, the first stream begins with one, and each later stream resumes after the last event
that was yielded. When that position is lost, a new snapshot is yielded as its difference to the known state, deletions
first. With a server without snapshots, List takes their place.
"""

from typing import Any, Generic, TypeVar

import grpc

from protocols.podresources.types import WatchOptions, WatchRefused, WatchUnsupported
from protocols.podresources.watch_state import BOOKMARK, WatchState
from protocols.process.rates import backoff_delay
from protocols.wire.pod_resources import FEATURES, RESUME, REVISION, SEQUENCE, SNAPSHOT

RETRY_FIRST, RETRY_MOST = 0.05, 1.0
PASSING = (
    grpc.StatusCode.OK,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.DEADLINE_EXCEEDED,
)
"""Ends after which a client tries again; CANCELLED comes when the server was killed in the middle of a message,
DEADLINE_EXCEEDED from the List beside a stream."""
E = TypeVar("E")


class PodWatchSession(Generic[E]):
    """Position and state of one watch, fed by a client: asyncio's or a blocking one."""

    def __init__(self, state: WatchState[E], options: WatchOptions) -> None:
        self._state = state
        self._options = options
        self._lineage = ""
        self._count = 0
        self._whole = False
        """The position is known, and everything before it was yielded."""
        self._snapshot: list[Any] | None = None
        """Messages of a snapshot that is not complete."""
        self._failures = 0
        self._complaint = ""

    def metadata(self) -> tuple[tuple[str, str], ...]:
        if self._whole and self._lineage:
            return ((SEQUENCE, "1"), (RESUME, f"{self._lineage}-{self._count}"))
        return ((SEQUENCE, "1"), (SNAPSHOT, "1")) if self._options.snapshot else ((SEQUENCE, "1"),)

    def joined(self, headers: dict[str, str], *, ended: bool = False) -> bool:
        """Handle the headers of a stream; when True is returned, call List and pass its reply to `listed`.

        `ended`: the call has its status already. With headers its messages may still come.
        """
        if not headers and ended:
            return False  # a call that failed
        offered = headers.get(FEATURES, "").split(",")
        if "snapshot" not in offered or "sequence" not in offered:
            self._snapshot = None
            return self._options.snapshot
        resumed = self._whole and bool(self._lineage)
        lineage, _, count = headers.get(REVISION, "").partition("-")
        self._snapshot = [] if self._options.snapshot and not resumed else None
        if not resumed:
            self._lineage, self._count, self._whole = lineage, int(count or 0), not self._options.snapshot
        return False

    def listed(self, reply: Any) -> list[E]:
        """Return the events of a List that was called after the stream opened."""
        self._lineage, self._whole = "", True
        return self._state.whole(reply)

    def message(self, message: Any) -> list[E]:
        self._failures, self._complaint = 0, ""
        if message.sequence:
            self._count = message.sequence
        if message.action > BOOKMARK:
            return []  # of a later document than ours
        if message.action == BOOKMARK:
            return self._complete()
        if self._snapshot is not None:
            self._snapshot.append(message)
            return []
        return self._state.apply(message)

    def _complete(self) -> list[E]:
        """Return the difference that a complete snapshot makes. A bookmark outside of one says nothing."""
        if self._snapshot is None:
            return []
        snapshot, self._snapshot, self._whole = self._snapshot, None, True
        return self._state.replace(snapshot)

    def ended(self, code: grpc.StatusCode, details: str) -> float:
        """Return the seconds until the next try. Raises WatchUnsupported or WatchRefused."""
        if code is grpc.StatusCode.UNIMPLEMENTED:
            raise WatchUnsupported(f"no watch here: {details}; beside a kubelet, nodeplane adopt serves one")
        if code not in PASSING:
            raise WatchRefused(f"the server rejects the watch ({code.name}): {details}")
        if code is grpc.StatusCode.OUT_OF_RANGE:
            self._whole, self._lineage = False, ""
        self._snapshot = None
        self._complain(code)
        self._failures += 1
        return backoff_delay(self._failures, RETRY_FIRST, RETRY_MOST)

    def _complain(self, code: grpc.StatusCode) -> None:
        """Once per trouble, not once per try."""
        line = f"watch interrupted ({code.name}); connecting again"
        if line != self._complaint:
            self._options.on_break(line)
        self._complaint = line
