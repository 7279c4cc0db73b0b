"""What every call asks at the door: who calls, may it now, and write it down."""

import logging
import time
from dataclasses import dataclass, field
from typing import Any

import grpc.aio

from actors.frontdoor.entrance.access import AccessLog
from actors.frontdoor.entrance.entrance import Entrance, EntranceOptions
from actors.frontdoor.entrance.types import UNKNOWN, EntranceLimits, Peer
from actors.frontdoor.errors import RateExceeded
from actors.frontdoor.limiter import FairLimiter
from actors.frontdoor.metrics import FrontDoorMetrics
from actors.frontdoor.types import Place

Context = grpc.aio.ServicerContext[Any, Any]


@dataclass(frozen=True)
class ReceptionOptions:
    place: Place
    limiter: FairLimiter
    """May be shared by several."""
    metrics: FrontDoorMetrics
    log: logging.Logger
    limits: EntranceLimits = field(default_factory=EntranceLimits)


class Reception:
    """Of one public socket."""

    def __init__(self, options: ReceptionOptions) -> None:
        self.place = place = options.place
        self._limiter = options.limiter
        self._metrics = options.metrics
        self._access = AccessLog(options.log)
        self.entrance = Entrance(
            EntranceOptions(
                place.socket, place.private, place.mode, place.group, options.limits, self._refused, self._closed
            )
        )

    def caller(self, context: Context) -> Peer:
        return self.entrance.caller(context.peer() or "") if context else UNKNOWN

    def called(self, context: Context, method: str, limited: bool) -> Peer:
        """Writes the call down; raises RateExceeded for a limited one that is too many."""
        peer = self.caller(context)
        self._access.called(peer, method)
        if limited and not self._limiter.take(peer.client, time.monotonic()):
            self._metrics.limited.inc()
            raise RateExceeded("rejected by rate limit")
        return peer

    def ended(self, peer: Peer, method: str, why: str) -> None:
        self._access.ended(peer, method, why)

    def _refused(self, why: str, peer: Peer) -> None:
        self._metrics.refused.labels(why).inc()
        self._access.refused(why, peer)

    def _closed(self, peer: Peer) -> None:
        self._access.closed(peer)
