"""A public socket with what applies to every call on it: the caller's identity, the rate limit, the access log."""

import json
import logging
import time
from collections import Counter
from typing import Any

import grpc.aio

from actors.frontdoor.serving.errors import RateExceeded
from actors.frontdoor.serving.listener import (
    UNKNOWN_PEER,
    ConnectionLimits,
    Listener,
    ListenerOptions,
    Peer,
    SocketOptions,
)
from actors.frontdoor.serving.metrics import FrontDoorMetrics
from protocols.bounded import BoundedMap
from protocols.errors import NodeplaneError

Context = grpc.aio.ServicerContext[Any, Any]

LOG_LINES_PER_S, LOG_BURST = 5.0, 50
ACTIVE_S = 1.0
"""A client shares the rate while its last call is not older than this."""
DEFAULT_LIMITS = ConnectionLimits()
MAX_CLIENTS = 1024
"""Clients with a token bucket; the one that was silent longest is forgotten first."""


class Endpoint:
    """One public socket; each method begins with `admit`."""

    def __init__(
        self,
        socket: SocketOptions,
        limiters: "tuple[FairLimiter, FairLimiter]",
        metrics: FrontDoorMetrics,
        log: logging.Logger,
        limits: ConnectionLimits = DEFAULT_LIMITS,
    ) -> None:
        """`limiters` are those of unary calls and of opened watches, of which each may ask for a snapshot."""
        self.socket, self._metrics = socket, metrics
        self._limiter, self._watch_limiter = limiters
        self._access_log = AccessLog(log)
        closed = self._access_log.client_disconnected
        self.listener = Listener(ListenerOptions(socket, limits, self._on_rejected, closed))

    def admit(self, context: Context, method: str, *, watch: bool = False) -> Peer:
        """Return the caller of a unary method, or of a `watch`, and log the call. Raises RateExceeded."""
        peer = self.listener.peer(context.peer() or "") if context else UNKNOWN_PEER
        self._access_log.called(peer, method)
        limiter = self._watch_limiter if watch else self._limiter
        if not limiter.take(peer.client, time.monotonic()):
            self._metrics.limited.inc()
            raise RateExceeded("rejected by rate limit")
        return peer

    def watch_failed(self, peer: Peer, method: str, error: NodeplaneError) -> None:
        self._access_log.watch_failed(peer, method, error)

    def _on_rejected(self, reason: str, peer: Peer) -> None:
        self._metrics.rejected.labels(reason).inc()
        self._access_log.connection_rejected(peer, reason)


class AccessLog:
    """One line per client that disconnects, watch that fails and connection that is rejected, at a bounded rate."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._bucket = _TokenBucket(LOG_LINES_PER_S, LOG_BURST)
        self._suppressed = 0
        self._calls: dict[str, Counter[str]] = {}
        """Calls per method, by open connection."""

    def called(self, peer: Peer, method: str) -> None:
        if peer.connection:
            self._calls.setdefault(peer.connection, Counter())[method] += 1

    def watch_failed(self, peer: Peer, method: str, error: NodeplaneError) -> None:
        self._write(f"watch ended {peer} method={method} code={error.grpc} message={json.dumps(str(error))}")

    def connection_rejected(self, peer: Peer, reason: str) -> None:
        self._calls.pop(peer.connection, None)
        self._write(f"connection rejected {peer} reason={reason}")

    def client_disconnected(self, peer: Peer) -> None:
        # Connections without any call are probes, and not worth a line.
        calls = self._calls.pop(peer.connection, None)
        if calls:
            counts = ",".join(f"{method}:{count}" for method, count in sorted(calls.items()))
            self._write(f"client disconnected {peer} calls={counts}")

    def _write(self, line: str) -> None:
        self._bucket.refill(time.monotonic())
        if self._bucket.tokens < 1.0:
            self._suppressed += 1
            return
        self._bucket.tokens -= 1.0
        suppressed = f" suppressed_lines={self._suppressed}" if self._suppressed else ""
        self._suppressed = 0
        self._log.info("access: %s%s", line, suppressed)


class _TokenBucket:
    def __init__(self, rate: float, burst: int) -> None:
        self.tokens = float(burst)
        self._rate = rate
        self._burst = float(burst)
        self._refilled_at = 0.0

    def refill(self, now: float, share: float = 1.0) -> None:
        """Add the tokens of the time since the last refill, at `share` of the rate."""
        self.tokens = min(self._burst, self.tokens + (now - self._refilled_at) * self._rate * share)
        self._refilled_at = now


class FairLimiter:
    """Rate limit of calls: kubelet's token bucket, with a fair share for each client.

    A single client gets exactly what kubelet's bucket gives. Among several, each gets its share of the rate, so a
    client over its share is rejected first; one below its share may overdraw the common bucket by one more burst.
    Pure: callers pass the current time in seconds.
    """

    def __init__(self, rate: float, burst: int, common_burst: int = 0) -> None:
        """Allow `rate` calls a second after `burst` calls at once, `common_burst` of all clients together.

        A rate of 0 is no limit, a common burst of 0 that of one client.
        """
        self._rate = rate
        self._burst = burst
        self._common = _TokenBucket(rate, common_burst or burst)
        self._clients = BoundedMap[str, tuple[_TokenBucket, float]](MAX_CLIENTS)
        """Bucket and time of the last call, least recent first."""

    def take(self, client: str, now: float) -> bool:
        """Return True if the client may call now, and count the call."""
        if not self._rate:
            return True
        bucket = self._client_bucket(client, now)
        sharing = self._active_clients(now)
        bucket.refill(now, 1.0 / sharing)
        self._common.refill(now)
        floor = 1.0 if sharing == 1 else 1.0 - self._burst
        if bucket.tokens < 1.0 or self._common.tokens < floor:
            return False
        bucket.tokens -= 1.0
        self._common.tokens -= 1.0
        return True

    def _client_bucket(self, client: str, now: float) -> _TokenBucket:
        known = self._clients.get(client)
        bucket = known[0] if known else _TokenBucket(self._rate, self._burst)
        self._clients[client] = bucket, now
        return bucket

    def _active_clients(self, now: float) -> int:
        count = 0
        for _, called_at in reversed(self._clients.values()):
            if now - called_at > ACTIVE_S:
                break
            count += 1
        return count
