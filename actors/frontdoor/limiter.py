"""The rate of unary calls: kubelet's bucket for all clients together, and a fair share of it for each. Pure: the caller
brings the time."""

from collections import OrderedDict

ACTIVE_S = 1.0
"""A client that called within this time counts among those who share the rate."""
MOST_CLIENTS = 1024
"""Clients remembered; the one that was silent longest is forgotten first."""


class TokenBucket:
    def __init__(self, rate: float, burst: int) -> None:
        self.tokens = float(burst)
        self._rate = rate
        self._burst = float(burst)
        self._at = 0.0

    def refill(self, now: float, share: float = 1.0) -> None:
        self.tokens = min(self._burst, self.tokens + (now - self._at) * self._rate * share)
        self._at = now


class FairLimiter:
    """One client alone gets exactly what kubelet's bucket gives. Of several, each gets its share of the rate, so the
    greedy one is refused first; one that stays below its share may overdraw the common bucket by one more burst."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = burst
        self._all = TokenBucket(rate, burst)
        self._clients: OrderedDict[str, tuple[TokenBucket, float]] = OrderedDict()

    def take(self, client: str, now: float) -> bool:
        """Whether one more call of this client fits. A rate of 0 is no limit."""
        if not self._rate:
            return True
        bucket = self._bucket(client, now)
        sharing = self._sharing(now)
        bucket.refill(now, 1.0 / sharing)
        self._all.refill(now)
        floor = 1.0 if sharing == 1 else 1.0 - self._burst
        if bucket.tokens < 1.0 or self._all.tokens < floor:
            return False
        bucket.tokens -= 1.0
        self._all.tokens -= 1.0
        return True

    def _bucket(self, client: str, now: float) -> TokenBucket:
        known = self._clients.pop(client, None)
        bucket = known[0] if known else TokenBucket(self._rate, self._burst)
        self._clients[client] = bucket, now
        if len(self._clients) > MOST_CLIENTS:
            self._clients.popitem(last=False)
        return bucket

    def _sharing(self, now: float) -> int:
        """Clients that called lately, newest last; at least the one that calls now."""
        count = 0
        for _, called in reversed(self._clients.values()):
            if now - called > ACTIVE_S:
                break
            count += 1
        return count
