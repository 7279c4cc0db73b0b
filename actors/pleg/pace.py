"""How often a full relist may be asked for: nonsense from the runtime must not become a busy loop. Pure."""

from dataclasses import dataclass

BURST = 5.0
PER_S = 1.0


@dataclass
class Pace:
    """A bucket of BURST relists that fills by PER_S. Times are monotonic seconds."""

    left: float = BURST
    at: float = 0.0

    def wait(self, now: float) -> float:
        """Take one; returns seconds to wait before it."""
        if self.at:
            self.left = min(BURST, self.left + (now - self.at) * PER_S)
        self.at = now
        self.left -= 1
        return max(0.0, -self.left / PER_S)
