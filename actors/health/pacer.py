"""How often one pod's status may change for its devices' sake. Pure: the caller gives the time in seconds."""

from protocols.pace import Bucket

BURST = 3.0
"""Changes of a pod that was quiet which go out at once."""


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
