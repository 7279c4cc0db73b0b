"""The service v1alpha1.Pods: list, get and watch the pods of this node.

Pods are a replica of podworker's stream, encoded as protobuf only when a client asks for them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import grpc
import grpc.aio
import msgspec
from prometheus_client import Counter

from actors.frontdoor.feeds.broadcast import EncodedEvent, Watchers, WatchOutput, serve_watch
from actors.frontdoor.feeds.encoding import field
from actors.frontdoor.serving.endpoint import Endpoint
from actors.frontdoor.serving.errors import PodUnknown, RateExceeded, SourcesNotSynced
from actors.frontdoor.serving.listener import Peer
from protocols.bus import Event, Op, StreamSink
from protocols.errors import NodeplaneError
from protocols.kube.jsons import read_json
from protocols.messages.podworker import NodePod
from protocols.wire import pods_v1alpha1_pb2 as pb
from protocols.wire.methods import Service
from protocols.wire.pod_resources import GET_POD, LIST_PODS, WATCH_PODS

Context = grpc.aio.ServicerContext[Any, Any]

LIST_POD_FIELD, GET_POD_FIELD, EVENT_POD_FIELD = 1, 1, 2
"""Number of the pod's field in the response of ListPods, GetPod and WatchPods."""
ENCODE_BATCH = 10
"""Pods that are encoded before other tasks get their turn."""


class NodePodFeed(StreamSink[NodePod]):
    """A sink of the bus. When the owner restarts, its next snapshot becomes the events that were missed."""

    def __init__(self, watchers: Watchers, on_synced_changed: Callable[[bool], None] = lambda synced: None) -> None:
        self.pods: dict[str, NodePod] = {}
        self.initialized = False
        """True after the first snapshot."""
        self.watchers = watchers
        self._on_synced_changed = on_synced_changed
        self._encoded: dict[str, bytes] = {}

    def on_snapshot(self, items: list[tuple[str, NodePod]], mark: int) -> None:
        fresh = dict(items)
        self.initialized = True
        for uid in self.pods.keys() - fresh.keys():
            self._apply(uid, None)
        for uid, pod in items:
            self._apply(uid, pod)

    def on_event(self, event: Event[NodePod]) -> None:
        self._apply(event.key, None if event.op is Op.DELETE else event.value)

    def on_synced(self, synced: bool) -> None:
        self._on_synced_changed(synced)

    def uids(self) -> list[str]:
        return sorted(self.pods)

    def encoded(self, uid: str) -> bytes | None:
        """Return the pod as protobuf, or None if it is gone."""
        pod = self.pods.get(uid)
        if pod is not None and uid not in self._encoded:
            self._encoded[uid] = _to_protobuf(read_json(pod.pod))
        return self._encoded.get(uid)

    def initial_events(self, uids: list[str]) -> Iterator[EncodedEvent]:
        """Yield ADDED for each pod that is left when its turn comes, then INITIAL_SYNC_COMPLETE."""
        for uid in uids:
            if (pod := self.encoded(uid)) is not None:
                yield _pod_event(pb.ADDED, pod)
        yield EncodedEvent(0, pb.WatchPodsEvent(type=pb.INITIAL_SYNC_COMPLETE).SerializeToString())

    def _apply(self, uid: str, new: NodePod | None) -> None:
        old = self.pods.pop(uid, None)
        if new is not None:
            self.pods[uid] = new
        if old == new:
            return
        self._encoded.pop(uid, None)
        if len(self.watchers):
            self.watchers.push(self._change_event(uid, old, new))

    def _change_event(self, uid: str, old: NodePod | None, new: NodePod | None) -> EncodedEvent:
        if new is None and old is not None:
            metadata = {"name": old.name, "namespace": old.namespace, "uid": uid}
            return _pod_event(pb.DELETED, _to_protobuf({"metadata": metadata}))
        return _pod_event(pb.MODIFIED if old else pb.ADDED, self.encoded(uid) or b"")


def _pod_event(kind: pb.EventType, pod: bytes) -> EncodedEvent:
    return EncodedEvent(0, pb.WatchPodsEvent(type=kind).SerializeToString() + field(EVENT_POD_FIELD, pod))


def _to_protobuf(pod: dict[str, object]) -> bytes:
    # Imported late: the tables cost memory, and most nodes never have a client of this API.
    from protocols.kube.protobuf.envelope import encode_message
    from protocols.kube.protobuf.table import message_of

    return encode_message(message_of("v1", "Pod"), pod)


class PodsMethods(msgspec.Struct, frozen=True):
    """Methods of the service; all are rejected until the replica is synced."""

    feed: NodePodFeed
    endpoint: Endpoint
    dropped: Counter
    drain_timeout_s: float

    def service(self) -> Service:
        service = Service().unary(LIST_PODS, self._unary("ListPods", self._list), encode=bytes)
        service.unary(GET_POD, self._unary("GetPod", self._get), encode=bytes)
        return service.stream(WATCH_PODS, self.watch, encode=bytes)

    def _unary(self, name: str, respond: Callable[[Any], Awaitable[bytes]]) -> Callable[[Any, Context], Any]:
        async def call(request: Any, context: Context) -> bytes:
            try:
                self.endpoint.admit(context, name)
                self._check_synced()
                return await respond(request)
            except NodeplaneError as error:
                await context.abort(grpc.StatusCode[error.grpc], str(error))
                raise

        return call

    async def _list(self, request: pb.ListPodsRequest) -> bytes:
        pods = []
        for number, uid in enumerate(self.feed.uids()):
            if number % ENCODE_BATCH == ENCODE_BATCH - 1:
                await asyncio.sleep(0)
            pods.append(self.feed.encoded(uid))
        return b"".join(field(LIST_POD_FIELD, pod) for pod in pods if pod is not None)

    async def _get(self, request: pb.GetPodRequest) -> bytes:
        pod = self.feed.encoded(request.podUID)
        if pod is None:
            raise PodUnknown(f"this node has no pod with uid {request.podUID[:80]!r}")
        return field(GET_POD_FIELD, pod)

    async def watch(self, request: pb.WatchPodsRequest, context: Context) -> None:
        try:
            peer = self.endpoint.admit(context, "WatchPods", watch=True)
        except RateExceeded as error:
            await context.abort(grpc.StatusCode[error.grpc], str(error))
        try:
            self._check_synced()
            await self._watch(context, peer)
        except NodeplaneError as error:
            self.endpoint.watch_failed(peer, "WatchPods", error)
            await context.abort(grpc.StatusCode[error.grpc], str(error))

    async def _watch(self, context: Context, peer: Peer) -> None:
        feed = self.feed
        watcher = feed.watchers.open(peer.client)
        try:
            # The watcher is open already: a pod may be sent twice, but none is missed.
            initial = feed.initial_events(feed.uids())
            await context.send_initial_metadata(())
            output = WatchOutput(
                context,
                initial,
                encode=lambda event: event.message,
                drain_timeout_s=self.drain_timeout_s,
                on_too_slow=self.dropped.inc,
            )
            await serve_watch(watcher, output)
        finally:
            feed.watchers.close(watcher)

    def _check_synced(self) -> None:
        if not self.feed.initialized:
            raise SourcesNotSynced("the pods of this node are not known yet; try again")
