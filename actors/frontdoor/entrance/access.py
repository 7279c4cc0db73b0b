"""The access log: a line when a client has gone, when its watch ends, when it is not let in. Bounded by a rate: a storm
of connections costs a storm of nothing but a count."""

import logging
import time
from collections import Counter

from actors.frontdoor.entrance.types import Peer
from actors.frontdoor.limiter import TokenBucket

LINES_PER_S, LINES_AT_ONCE = 5.0, 50


class AccessLog:
    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._bucket = TokenBucket(LINES_PER_S, LINES_AT_ONCE)
        self._left_out = 0
        self._calls: dict[str, Counter[str]] = {}
        """By connection, as long as it is open."""

    def called(self, peer: Peer, method: str) -> None:
        if peer.connection:
            self._calls.setdefault(peer.connection, Counter())[method] += 1

    def ended(self, peer: Peer, method: str, why: str) -> None:
        self._write(f"{peer} {method} ended: {why}")

    def refused(self, why: str, peer: Peer) -> None:
        self._calls.pop(peer.connection, None)
        self._write(f"{peer} not let in: {why}")

    def closed(self, peer: Peer) -> None:
        """A connection that never called anything is nobody's business: probes do that."""
        calls = self._calls.pop(peer.connection, None)
        if calls:
            self._write(f"{peer} left, calls: {' '.join(f'{name}={count}' for name, count in sorted(calls.items()))}")

    def _write(self, line: str) -> None:
        self._bucket.refill(time.monotonic())
        if self._bucket.tokens < 1.0:
            self._left_out += 1
            return
        self._bucket.tokens -= 1.0
        more = f" ({self._left_out} lines left out before)" if self._left_out else ""
        self._left_out = 0
        self._log.info("access: %s%s", line, more)
