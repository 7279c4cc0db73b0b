"""How often one pod's status may change for its devices' sake. Pure: the caller gives the time in seconds."""

from dataclasses import dataclass

BURST = 3.0
"""Changes of a pod that was quiet which go out at once."""


@dataclass
class Bucket:
    """Tokens that come back at `rate` a second, up to `most`."""

    rate: float
    most: float
    tokens: float
    at: float

    def ready(self, now: float) -> float:
        """When there will be a token: `now` or earlier means there is one."""
        tokens = self._tokens(now)
        return now if tokens >= 1 else now + (1 - tokens) / self.rate

    def take(self, now: float) -> None:
        self.tokens, self.at = self._tokens(now) - 1, now

    def _tokens(self, now: float) -> float:
        return min(self.most, self.tokens + (now - self.at) * self.rate)


class Pacer:
    """A bucket for each pod that changed; `forget` it with the pod."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._buckets: dict[str, Bucket] = {}

    def ready(self, uid: str, now: float) -> float:
        bucket = self._buckets.get(uid)
        return now if bucket is None else bucket.ready(now)

    def take(self, uid: str, now: float) -> None:
        bucket = self._buckets.get(uid)
        if bucket is None:
            bucket = self._buckets[uid] = Bucket(self._rate, BURST, BURST, now)
        bucket.take(now)

    def forget(self, uid: str) -> None:
        self._buckets.pop(uid, None)

    def __len__(self) -> int:
        return len(self._buckets)
