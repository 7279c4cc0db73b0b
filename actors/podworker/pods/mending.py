"""What somebody else has written over a pod's status is put right soon, but not as often as it can be written."""

import asyncio
import time
from collections.abc import Callable

from protocols.pace import Bucket

BURST, RATE = 3.0, 0.2
"""At once, then one each 5 s; upstream's kubelet looks each 10 s."""


class Mending:
    """Of one pod. `mend` is called in the loop, once for all orders that came before."""

    def __init__(self, mend: Callable[[], None]) -> None:
        self._mend = mend
        self._pace: Bucket | None = None
        self._timer: asyncio.TimerHandle | None = None

    def order(self) -> None:
        now = time.monotonic()
        self._pace = self._pace or Bucket(RATE, BURST, BURST, now)
        if self._timer is None:
            delay = max(0.0, self._pace.ready(now) - now)
            self._timer = asyncio.get_running_loop().call_later(delay, self._due)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _due(self) -> None:
        self._timer = None
        if self._pace is not None:
            self._pace.take(time.monotonic())
        self._mend()
