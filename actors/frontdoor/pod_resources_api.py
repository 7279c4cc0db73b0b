"""The services v1.PodResourcesLister and v1alpha1.PodResourcesLister.

All responses are bytes that were encoded once per change. Request metadata turns on optional extensions of the watches;
without it they behave as the KEP specifies.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import grpc
import grpc.aio
import msgspec

from actors.frontdoor.feeds.allocatable_feed import AllocatableFeed
from actors.frontdoor.feeds.broadcast import EncodedEvent, Journal, Watchers, WatchOutput, parse_revision, serve_watch
from actors.frontdoor.feeds.encoding import (
    LIST_POD_FIELD,
    bookmark,
    field,
    pod_without_resources,
    sequence,
    v1alpha1_field,
    v1alpha1_pod_without_resources,
)
from actors.frontdoor.feeds.pod_feed import PodFeed
from actors.frontdoor.serving.endpoint import Endpoint
from actors.frontdoor.serving.errors import MetadataInvalid, PodUnknown, PositionLost, RateExceeded, WatchDisabled
from actors.frontdoor.serving.listener import Peer
from actors.frontdoor.serving.metrics import FrontDoorMetrics
from protocols.errors import NodeplaneError
from protocols.messages.podworker import NodePod
from protocols.wire import podresources_v1_pb2 as v1
from protocols.wire import podresources_v1alpha1_pb2 as v1alpha1
from protocols.wire.methods import Service
from protocols.wire.pod_resources import (
    FEATURES,
    FINGERPRINT,
    GET,
    GET_ALLOCATABLE,
    LIST,
    LIST_AND_WATCH,
    LIST_AND_WATCH_ALLOCATABLE,
    LIST_V1ALPHA1,
    RESUME,
    REVISION,
    SEQUENCE,
    SNAPSHOT,
)

Context = grpc.aio.ServicerContext[Any, Any]
Respond = Callable[[Any], tuple[bytes, str]]
"""From the request to the encoded response and its revision."""
FEATURE_NAMES = "snapshot,resume,sequence"


@dataclass
class UnaryMethods:
    """List, Get and GetAllocatableResources."""

    pods: PodFeed
    allocatable: AllocatableFeed
    metrics: FrontDoorMetrics
    endpoint: Endpoint
    pods_without_resources: Callable[[], list[NodePod]] = list
    """Pods of this node that hold nothing, which v1alpha1 lists too."""
    active_only: bool = True
    """False: List of v1 has those too, as in kubelet before 1.34."""

    def __post_init__(self) -> None:
        self.list = self._method("list", LIST.path, self._list)
        self.get = self._method("get", GET.path, self._get)
        self.get_allocatable = self._method("get_allocatable", GET_ALLOCATABLE.path, self._get_allocatable)
        self.list_v1alpha1 = self._method("list", LIST_V1ALPHA1.path, self._list_v1alpha1)

    def _method(self, kind: str, path: str, respond: Respond) -> Callable[[Any, Context], Any]:
        """Return a handler that adds rate limit, metrics, revision header and error codes."""
        version, name = path[1:].partition(".")[0], path.rpartition("/")[2]
        logged = name if version == "v1" else f"{version}.{name}"

        async def call(request: Any, context: Context) -> bytes:
            try:
                self.endpoint.admit(context, logged)
                self.metrics.request(kind, version)
                response, revision = respond(request)
            except RateExceeded as error:  # counted neither as request nor as error: kubelet limits in an interceptor
                await context.abort(grpc.StatusCode[error.grpc], str(error))
            except NodeplaneError as error:
                self.metrics.error(kind, version)
                await context.abort(grpc.StatusCode[error.grpc], str(error))
            await context.send_initial_metadata(((REVISION, revision), *self._requested_headers(context, logged)))
            return response

        return call

    def _requested_headers(self, context: Context, method: str) -> tuple[tuple[str, str], ...]:
        if method == "List" and (FINGERPRINT, "1") in (context.invocation_metadata() or ()):
            return ((FINGERPRINT, self.pods.fingerprint()),)
        return ()

    def _list(self, request: v1.ListPodResourcesRequest) -> tuple[bytes, str]:
        without = () if self.active_only else self.pods_without_resources()
        appended = [
            field(LIST_POD_FIELD, pod_without_resources(pod.namespace, pod.name, pod.containers)) for pod in without
        ]
        return b"".join((self.pods.list_response(), *appended)), self.pods.journal.revision()

    def _get(self, request: v1.GetPodResourcesRequest) -> tuple[bytes, str]:
        response = self.pods.get_response(request.pod_namespace, request.pod_name)
        if response is None:
            raise PodUnknown(f"pod {request.pod_name} in namespace {request.pod_namespace} not found")
        return response, self.pods.journal.revision()

    def _get_allocatable(self, request: v1.AllocatableResourcesRequest) -> tuple[bytes, str]:
        return self.allocatable.response(), self.allocatable.journal.revision()

    def _list_v1alpha1(self, request: v1alpha1.ListPodResourcesRequest) -> tuple[bytes, str]:
        without = [
            v1alpha1_field(v1alpha1_pod_without_resources(pod.namespace, pod.name, pod.containers))
            for pod in self.pods_without_resources()
        ]
        listed = sorted(self.pods.v1alpha1_fields() + without, key=lambda pod: (pod.namespace, pod.name))
        return b"".join(pod.encoded for pod in listed), self.pods.journal.revision()


class WatchRequest(msgspec.Struct, frozen=True):
    """Optional watch extensions, passed as gRPC metadata."""

    snapshot: bool = False
    sequence: bool = False
    resume: int | None = None


def parse_watch_request(metadata: Iterable[tuple[str, str | bytes]]) -> WatchRequest:
    """Read the `nodeplane-*` keys and ignore all others. Raises MetadataInvalid."""
    values = {key: value for key, value in metadata if key in (SNAPSHOT, SEQUENCE, RESUME)}
    resume = values.get(RESUME)
    request = WatchRequest(
        snapshot=_flag(SNAPSHOT, values.get(SNAPSHOT)),
        sequence=_flag(SEQUENCE, values.get(SEQUENCE)),
        resume=None if resume is None else parse_revision(_text(resume)),
    )
    if request.snapshot and request.resume is not None:
        raise MetadataInvalid(f"{SNAPSHOT} and {RESUME} exclude each other; send one of them")
    return request


def _flag(key: str, value: str | bytes | None) -> bool:
    if value is not None and _text(value) not in ("0", "1"):
        raise MetadataInvalid(f'{key} must be 1, not "{_text(value)[:80]}"')
    return value is not None and _text(value) == "1"


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


class Feed(Protocol):
    """A replica with its events: PodFeed or AllocatableFeed."""

    journal: Journal
    watchers: Watchers

    def snapshot(self) -> Iterable[EncodedEvent]: ...


@dataclass(frozen=True)
class Watch:
    """One watch method: response headers at once, then the requested past, then events as they happen."""

    kind: str
    """Label of its metrics."""
    method: str
    feed: Feed
    metrics: FrontDoorMetrics
    endpoint: Endpoint
    enabled: bool
    drain_timeout_s: float

    async def call(self, request: Any, context: Context) -> None:
        try:
            peer = self.endpoint.admit(context, self.method, watch=True)
        except RateExceeded as error:  # counted neither as request nor as error, as unary calls
            await context.abort(grpc.StatusCode[error.grpc], str(error))
        self.metrics.request(self.kind)
        try:
            await self._serve(context, peer)
        except NodeplaneError as error:
            self.metrics.error(self.kind)
            self.endpoint.watch_failed(peer, self.method, error)
            await context.abort(grpc.StatusCode[error.grpc], str(error))

    async def _serve(self, context: Context, peer: Peer) -> None:
        if not self.enabled:
            raise WatchDisabled(f"{self.method} is disabled: feature gate KubeletPodResourcesWatch is off")
        request = parse_watch_request(context.invocation_metadata() or ())
        feed = self.feed
        watcher = feed.watchers.open(peer.client)
        gauge = self.metrics.watchers.labels(self.kind)
        gauge.inc()
        try:
            # No await between open() and here: events after `initial` are in the watcher's queue, and none is in both.
            initial, revision = self._initial_events(request), feed.journal.revision()
            encode = _encoder(request, feed.journal)
            await context.send_initial_metadata(((REVISION, revision), (FEATURES, FEATURE_NAMES)))
            output = WatchOutput(
                context,
                initial,
                encode=encode,
                drain_timeout_s=self.drain_timeout_s,
                on_too_slow=self.metrics.dropped.labels(self.kind).inc,
            )
            await serve_watch(watcher, output)
        finally:
            gauge.dec()
            feed.watchers.close(watcher)

    def _initial_events(self, request: WatchRequest) -> list[EncodedEvent]:
        feed = self.feed
        if request.resume is not None:
            return feed.journal.since(request.resume)
        if request.snapshot:
            return [*feed.snapshot(), EncodedEvent(feed.journal.position, bookmark())]
        return []


def _encoder(request: WatchRequest, journal: Journal) -> Callable[[EncodedEvent], bytes]:
    base = journal.base

    def with_sequence(event: EncodedEvent) -> bytes:
        if journal.base != base:
            raise PositionLost("the ledger was lost and began anew; start again with a snapshot")
        return event.message + sequence(event.position - base) if event.position else event.message

    return with_sequence if request.sequence else lambda event: event.message


@dataclass(frozen=True)
class PodResources:
    """Methods of both versions."""

    unary: UnaryMethods
    watch_pods: Watch
    watch_allocatable: Watch

    def services(self) -> tuple[Service, ...]:
        """Return the services v1 and v1alpha1."""
        service = Service().unary(LIST, self.unary.list, encode=bytes).unary(GET, self.unary.get, encode=bytes)
        service.unary(GET_ALLOCATABLE, self.unary.get_allocatable, encode=bytes)
        service.stream(LIST_AND_WATCH, self.watch_pods.call, encode=bytes)
        service.stream(LIST_AND_WATCH_ALLOCATABLE, self.watch_allocatable.call, encode=bytes)
        return service, Service().unary(LIST_V1ALPHA1, self.unary.list_v1alpha1, encode=bytes)
