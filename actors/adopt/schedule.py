"""When to ask kubelet. Pure: the caller brings the time.

An event of the runtime is asked about at once, and again with growing pauses: what kubelet gives back it gives back
some time after the container has ended. Without events, and for what no event tells (device plugins), there is a poll.
"""

ECHOES = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
"""Seconds after the newest event."""
GAP = 0.1
"""Between two looks of two calls each: a fifth of kubelet's rate at most, which it shares among all its clients."""
RETRY_FIRST, RETRY_MOST = 0.1, 5.0


class Schedule:
    def __init__(self, poll_s: float, eventless_s: float) -> None:
        self._poll_s, self._eventless_s = poll_s, eventless_s
        self.streaming = False
        """The runtime tells of its events."""
        self._event: float | None = None
        self._echo = len(ECHOES)
        self._asked = float("-inf")
        self._failures = 0

    def event(self, now: float) -> None:
        self._event, self._echo = now, 0

    def asked(self, now: float, well: bool) -> None:
        """A question was answered, or was not."""
        self._asked = now
        self._failures = 0 if well else self._failures + 1
        while well and self._event is not None and self._echo < len(ECHOES) and self._event + ECHOES[self._echo] <= now:
            self._echo += 1

    def due(self) -> float:
        """When to ask next."""
        if self._failures:
            return self._asked + min(RETRY_FIRST * 2.0 ** min(self._failures - 1, 16), RETRY_MOST)
        due = self._asked + (self._poll_s if self.streaming else min(self._poll_s, self._eventless_s))
        if self._event is not None and self._echo < len(ECHOES):
            due = min(due, self._event + ECHOES[self._echo])
        return max(due, self._asked + GAP)
