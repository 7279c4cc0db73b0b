"""State of the event stream, without I/O: when to try again, and what others may believe meanwhile.

connecting --headers or message--> streaming --error, EOF--> broken --delay--> connecting
connecting --UNIMPLEMENTED--> unsupported --10 min, or another runtime--> connecting
"""

from dataclasses import dataclass
from enum import Enum

from actors.cri.backoff import SETTLED_S, retry_delay

PROBE_UNSUPPORTED_S = 600.0
"""How often a runtime without events is asked again."""


class Phase(Enum):
    CONNECTING = "connecting"
    STREAMING = "streaming"
    BROKEN = "broken"
    UNSUPPORTED = "unsupported"


@dataclass
class Connection:
    """All times are monotonic seconds given by the caller."""

    phase: Phase = Phase.CONNECTING
    failures: int = 0
    streaming_since: float = 0.0
    retry_at: float = 0.0

    def opened(self, now: float) -> bool:
        """Headers or a first message arrived; True when that was news."""
        if self.phase is Phase.STREAMING:
            return False
        self.phase = Phase.STREAMING
        self.streaming_since = now
        return True

    def failed(self, now: float) -> float:
        """The stream ended or could not be opened; returns seconds until the next attempt."""
        if self.phase is Phase.STREAMING and now - self.streaming_since >= SETTLED_S:
            self.failures = 0
        self.failures += 1
        self.phase = Phase.BROKEN
        return self._wait(now, retry_delay(self.failures))

    def unsupported(self, now: float) -> float:
        """The runtime has no event stream; returns seconds until it is asked again."""
        self.phase = Phase.UNSUPPORTED
        return self._wait(now, PROBE_UNSUPPORTED_S)

    def connecting(self) -> None:
        if self.phase is not Phase.UNSUPPORTED:
            self.phase = Phase.CONNECTING

    def _wait(self, now: float, delay: float) -> float:
        self.retry_at = now + delay
        return delay
