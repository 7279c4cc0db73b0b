"""Hold the spans of a pod until they can be linked: callers end after the calls they cause. Pure.

Callers pass the time in seconds.
"""

from collections.abc import Iterable

import msgspec

from protocols.messages.trace import Span

SETTLE_S = 2.0
"""A pod without new spans for this long is exported."""
LONGEST_S = 10.0
"""And any pod this long after the first span that waits."""
MOST_SPANS = 20_000
"""Spans that wait at once; beyond, those of the pod that waited longest are dropped."""


class _Waiting(msgspec.Struct):
    since: float
    newest: float
    spans: list[Span] = []


class Pending:
    """Spans by pod, `most` at most: beyond it the pods that wait longest are dropped."""

    def __init__(self, most: int = MOST_SPANS) -> None:
        self._pods: dict[str, _Waiting] = {}
        self._most = most
        self._count = 0
        self.dropped = 0

    def __len__(self) -> int:
        return self._count

    def add(self, spans: Iterable[Span], now: float) -> None:
        for span in spans:
            waiting = self._pods.get(span.pod)
            if waiting is None:
                waiting = self._pods[span.pod] = _Waiting(now, now)
            waiting.newest = now
            waiting.spans.append(span)
            self._count += 1
        while self._count > self._most:
            self.dropped += len(self._take(next(iter(self._pods))))

    def due(self, now: float) -> list[list[Span]]:
        """Return the spans of each pod that is to be exported now; they wait no longer."""
        due = [
            pod for pod, spans in self._pods.items() if now - spans.newest >= SETTLE_S or now - spans.since >= LONGEST_S
        ]
        return [self._take(pod) for pod in due]

    def all(self) -> list[list[Span]]:
        """Return what waits, at the end."""
        return [self._take(pod) for pod in list(self._pods)]

    def _take(self, pod: str) -> list[Span]:
        spans = self._pods.pop(pod).spans
        self._count -= len(spans)
        return spans
