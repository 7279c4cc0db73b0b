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
