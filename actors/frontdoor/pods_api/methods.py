"""The three calls of v1alpha1.Pods."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
from prometheus_client import Counter

from actors.frontdoor.entrance.reception import Reception
from actors.frontdoor.entrance.types import Peer
from actors.frontdoor.errors import PodUnknown, SourcesNotSynced
from actors.frontdoor.framing import field
from actors.frontdoor.pods_api.feed import NodePodFeed
from actors.frontdoor.sending import Sending, send
from protocols.errors import NodeplaneError
from protocols.wire import pods_v1alpha1_pb2 as pb
from protocols.wire.methods import Service
from protocols.wire.pods_api import GET_POD, LIST_PODS, WATCH_PODS

Context = grpc.aio.ServicerContext[Any, Any]
LISTED, GOT = 1, 1
AT_ONCE = 10
"""Pods that are encoded before others have their turn."""


@dataclass(frozen=True)
class PodsOptions:
    feed: NodePodFeed
    reception: Reception
    dropped: Counter
    last_words: float


class PodsMethods:
    def __init__(self, options: PodsOptions) -> None:
        self._options = options

    def service(self) -> Service:
        listing = Service().unary(LIST_PODS, self._unary("ListPods", self._list), encode=bytes)
        listing.unary(GET_POD, self._unary("GetPod", self._get), encode=bytes)
        return listing.stream(WATCH_PODS, self.watch, encode=bytes)

    def _unary(self, name: str, answer: Callable[[Any], Awaitable[bytes]]) -> Callable[[Any, Context], Any]:
        async def call(request: Any, context: Context) -> bytes:
            try:
                self._options.reception.called(context, name, limited=True)
                self._check_synced()
                return await answer(request)
            except NodeplaneError as error:
                await context.abort(grpc.StatusCode[error.grpc], str(error))
                raise

        return call

    async def _list(self, request: pb.ListPodsRequest) -> bytes:
        pods = []
        for number, uid in enumerate(self._options.feed.uids()):
            if number % AT_ONCE == AT_ONCE - 1:
                await asyncio.sleep(0)
            pods.append(self._options.feed.encoded(uid))
        return b"".join(field(LISTED, pod) for pod in pods if pod is not None)

    async def _get(self, request: pb.GetPodRequest) -> bytes:
        pod = self._options.feed.encoded(request.podUID)
        if pod is None:
            raise PodUnknown(f"this node has no pod with uid {request.podUID[:80]!r}")
        return field(GOT, pod)

    async def watch(self, request: pb.WatchPodsRequest, context: Context) -> None:
        peer = self._options.reception.called(context, "WatchPods", limited=False)
        try:
            self._check_synced()
            await self._watch(context, peer)
        except NodeplaneError as error:
            self._options.reception.ended(peer, "WatchPods", f"{error.grpc}: {error}")
            await context.abort(grpc.StatusCode[error.grpc], str(error))

    async def _watch(self, context: Context, peer: Peer) -> None:
        feed = self._options.feed
        watcher = feed.watchers.open(peer.client)
        try:
            past = feed.added(feed.uids())  # the watcher is open already: a pod may come twice, but none is missed
            await context.send_initial_metadata(())
            await send(
                Sending(
                    context,
                    watcher,
                    past,
                    encode=lambda entry: entry.message,
                    last_words=self._options.last_words,
                    on_dropped=self._options.dropped.inc,
                )
            )
        finally:
            feed.watchers.close(watcher)

    def _check_synced(self) -> None:
        if not self._options.feed.heard:
            raise SourcesNotSynced("the pods of this node are not known yet; ask again")
