"""The unary calls: List, Get and GetAllocatableResources of v1, List of v1alpha1; all from the replica."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import Message

from actors.frontdoor.allocatable import AllocatableFeed
from actors.frontdoor.encode import devices, old_pod, pod
from actors.frontdoor.errors import PodUnknown, RateExceeded
from actors.frontdoor.limiter import TokenBucket
from actors.frontdoor.metrics import FrontDoorMetrics
from actors.frontdoor.pods import PodFeed
from protocols.errors import NodeplaneError
from protocols.wire import podresources_v1_pb2 as v1
from protocols.wire import podresources_v1alpha1_pb2 as v1alpha1
from protocols.wire.pod_resources import REVISION

Context = grpc.aio.ServicerContext[Any, Any]
Answer = Callable[[Any], tuple[Message, str]]
"""From the request to the reply and the revision it shows."""


@dataclass(frozen=True)
class ListerOptions:
    pods: PodFeed
    allocatable: AllocatableFeed
    metrics: FrontDoorMetrics
    bucket: TokenBucket


class Lister:
    def __init__(self, options: ListerOptions) -> None:
        self._options = options
        self.list = self._method("list", "v1", self._list)
        self.get = self._method("get", "v1", self._get)
        self.get_allocatable = self._method("get_allocatable", "v1", self._get_allocatable)
        self.list_v1alpha1 = self._method("list", "v1alpha1", self._list_v1alpha1)

    def _method(self, kind: str, version: str, answer: Answer) -> Callable[[Any, Context], Any]:
        """What every unary call shares: the rate, the figures, the position, the error's code."""

        async def call(request: Any, context: Context) -> Message:
            try:
                if not self._options.bucket.take(time.monotonic()):
                    raise RateExceeded("rejected by rate limit")
                self._options.metrics.request(kind, version)
                reply, revision = answer(request)
            except NodeplaneError as error:
                self._options.metrics.error(kind, version)
                await context.abort(grpc.StatusCode[error.grpc], str(error))
            await context.send_initial_metadata(((REVISION, revision),))
            return reply

        return call

    def _list(self, request: v1.ListPodResourcesRequest) -> tuple[Message, str]:
        pods = [pod(item) for item in self._options.pods.listed()]
        return v1.ListPodResourcesResponse(pod_resources=pods), self._options.pods.journal.revision()

    def _get(self, request: v1.GetPodResourcesRequest) -> tuple[Message, str]:
        found = self._options.pods.find(request.pod_namespace, request.pod_name)
        if found is None:
            raise PodUnknown(f"pod {request.pod_name} in namespace {request.pod_namespace} not found")
        return v1.GetPodResourcesResponse(pod_resources=pod(found)), self._options.pods.journal.revision()

    def _get_allocatable(self, request: v1.AllocatableResourcesRequest) -> tuple[Message, str]:
        feed = self._options.allocatable
        return v1.AllocatableResourcesResponse(devices=devices(feed.listed())), feed.journal.revision()

    def _list_v1alpha1(self, request: v1alpha1.ListPodResourcesRequest) -> tuple[Message, str]:
        pods = [old_pod(item) for item in self._options.pods.listed()]
        return v1alpha1.ListPodResourcesResponse(pod_resources=pods), self._options.pods.journal.revision()
