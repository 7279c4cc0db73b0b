"""The two watch calls: headers at once, then what the client asked for of the past, then everything as it happens."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import grpc
import grpc.aio

from actors.frontdoor.encode import bookmark, sequence
from actors.frontdoor.entrance.reception import Reception
from actors.frontdoor.entrance.types import Peer
from actors.frontdoor.errors import PositionLost, WatchDisabled
from actors.frontdoor.journal import Journal
from actors.frontdoor.metrics import FrontDoorMetrics
from actors.frontdoor.sending import Sending, send
from actors.frontdoor.types import Entry
from actors.frontdoor.watchers import Watchers
from actors.frontdoor.wishes import FEATURE_NAMES, Wishes, parse_wishes
from protocols.errors import NodeplaneError
from protocols.wire.pod_resources import FEATURES, REVISION

Context = grpc.aio.ServicerContext[Any, Any]


class Feed(Protocol):
    """A state with its events: PodFeed or AllocatableFeed."""

    journal: Journal
    watchers: Watchers

    def snapshot(self) -> Iterable[Entry]: ...


@dataclass(frozen=True)
class WatchOptions:
    kind: str
    method: str
    feed: Feed
    metrics: FrontDoorMetrics
    reception: Reception
    enabled: bool
    last_words: float


class Watch:
    """One watch method. Messages are bytes already: the same ones for every client."""

    def __init__(self, options: WatchOptions) -> None:
        self._options = options

    async def call(self, request: Any, context: Context) -> None:
        self._options.metrics.request(self._options.kind)
        peer = self._options.reception.called(context, self._options.method, limited=False)
        try:
            await self._serve(context, peer)
        except NodeplaneError as error:
            self._options.metrics.error(self._options.kind)
            self._options.reception.ended(peer, self._options.method, f"{error.grpc}: {error}")
            await context.abort(grpc.StatusCode[error.grpc], str(error))

    async def _serve(self, context: Context, peer: Peer) -> None:
        if not self._options.enabled:
            raise WatchDisabled(f"{self._options.method} is disabled: feature gate KubeletPodResourcesWatch is off")
        wishes = parse_wishes(context.invocation_metadata() or ())
        feed = self._options.feed
        watcher = feed.watchers.open(peer.client)
        gauge = self._options.metrics.watchers.labels(self._options.kind)
        gauge.inc()
        try:
            # no await between here and open(): what follows `past` is in the watcher's queue, and nothing twice
            past, revision = self._past(wishes), feed.journal.revision()
            await context.send_initial_metadata(((REVISION, revision), (FEATURES, FEATURE_NAMES)))
            await send(
                Sending(
                    context,
                    watcher,
                    past,
                    _encoder(wishes, feed.journal),
                    self._options.last_words,
                    self._options.metrics.dropped.labels(self._options.kind).inc,
                )
            )
        finally:
            gauge.dec()
            feed.watchers.close(watcher)

    def _past(self, wishes: Wishes) -> list[Entry]:
        feed = self._options.feed
        if wishes.resume is not None:
            return feed.journal.since(wishes.resume)
        if wishes.snapshot:
            return [*feed.snapshot(), Entry(feed.journal.position, bookmark())]
        return []


def _encoder(wishes: Wishes, journal: Journal) -> Callable[[Entry], bytes]:
    base = journal.base

    def numbered(entry: Entry) -> bytes:
        if journal.base != base:
            raise PositionLost("the ledger was lost and began anew; start again with a snapshot")
        return entry.message + sequence(entry.position - base) if entry.position else entry.message

    return numbered if wishes.sequence else lambda entry: entry.message
