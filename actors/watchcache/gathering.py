"""How long changes wait for company before they are taken. Pure; time is given.

What a change costs here, on the bus and at every follower is mostly that it wakes them, and at the store that it is
sent alone. So the more come, the longer they are gathered; one that comes alone is not kept waiting.
"""

CROWD = 3
"""Changes taken at once from which on the next ones wait twice as long, and below which half as long."""


class Gathering:
    def __init__(self, shortest: float, longest: float) -> None:
        """Seconds."""
        self._shortest, self._longest = shortest, longest
        self._wait = self._resumed = 0.0

    def after(self, taken: int, now: float) -> float:
        """Seconds to leave what comes next to the kernel, after `taken` changes were taken at `now`."""
        if now - self._resumed >= 1.5 * self._shortest:
            self._wait = 0.0
        elif self._wait and taken >= CROWD:
            self._wait = min(2 * self._wait, self._longest)
        else:
            self._wait = max(self._wait / 2, self._shortest)
        self._resumed = now + self._wait
        return self._wait
