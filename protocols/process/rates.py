"""Rate limits and backoff. Pure: callers pass the time in seconds."""

import msgspec


class TokenBucket(msgspec.Struct):
    """Tokens that are refilled at `rate` a second, up to `most`: a few events at once, then a steady rate."""

    rate: float
    most: float
    tokens: float
    at: float

    def ready(self, now: float) -> float:
        """Return the time of the next token; it is there now if that is not after `now`."""
        tokens = self._tokens(now)
        return now if tokens >= 1 else now + (1 - tokens) / self.rate

    def wait(self, now: float) -> float:
        """Take a token, and return the seconds until it is there."""
        ready = self.ready(now)
        self.take(now)
        return max(0.0, ready - now)

    def take(self, now: float) -> None:
        self.tokens, self.at = self._tokens(now) - 1, now

    def _tokens(self, now: float) -> float:
        return min(self.most, self.tokens + (now - self.at) * self.rate)


MOST_DOUBLINGS = 64
"""Keeps the power finite; any delay is at its maximum long before."""


def backoff_delay(failures: int, first: float, most: float) -> float:
    """Return the delay after so many consecutive failures: `first`, then doubled with each up to `most`."""
    return min(most, first * 2.0 ** min(failures - 1, MOST_DOUBLINGS))


MOST_RETRY_SECONDS = 32
"""The longest Retry-After: client-go gives up after ten of them."""


class RetryAfter:
    """Seconds after which rejected clients should ask again.

    As upstream: doubled if so many seconds saw three rejections each, less by the seconds since the last if below one.
    """

    def __init__(self) -> None:
        self.seconds = 1
        self._last = self._raised = -MOST_RETRY_SECONDS
        self._rejected: dict[int, int] = {}

    def reject(self, now: float) -> int:
        """Count a rejection, and return the seconds."""
        second = int(now)
        if second != self._last:
            self._adjust(second)
            self._last = second
        self._rejected[second] = self._rejected.get(second, 0) + 1
        return self.seconds

    def _adjust(self, second: int) -> None:
        recent = {at: count for at, count in self._rejected.items() if second - at <= MOST_RETRY_SECONDS}
        self._rejected = recent
        count = sum(count for at, count in recent.items() if second - at <= self.seconds)
        if count >= 3 * self.seconds and second - self._raised >= self.seconds:
            self.seconds, self._raised = min(2 * self.seconds, MOST_RETRY_SECONDS), second
        elif count < self.seconds:
            self.seconds = max(1, self.seconds - (second - self._last))
