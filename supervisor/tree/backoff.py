"""How long to wait before the next start: at once, then doubling with jitter."""

import random

from supervisor.tree.spec import Limits


class Backoff:
    def __init__(self, limits: Limits, chance: random.Random) -> None:
        self._limits = limits
        self._chance = chance
        self._level = 0

    def next(self) -> float:
        """Seconds to wait now; 0 for the first crash after a quiet time."""
        level, self._level = self._level, self._level + 1
        if level == 0:
            return 0.0
        limits = self._limits
        base = min(limits.backoff_max_s, limits.backoff_s * 2.0 ** min(level - 1, 32))
        return base * self._chance.uniform(1 - limits.jitter, 1 + limits.jitter)

    def reset(self) -> None:
        self._level = 0
