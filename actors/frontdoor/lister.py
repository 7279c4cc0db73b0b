"""The unary calls: List, Get and GetAllocatableResources of v1, List of v1alpha1; all from the replica, as bytes that
are encoded once per change."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio

from actors.frontdoor.allocatable import AllocatableFeed
from actors.frontdoor.encode import LISTED_POD, bare_pod, old_bare
from actors.frontdoor.entrance.reception import Reception
from actors.frontdoor.errors import PodUnknown, RateExceeded
from actors.frontdoor.framing import field
from actors.frontdoor.metrics import FrontDoorMetrics
from actors.frontdoor.pods import PodFeed
from protocols.errors import NodeplaneError
from protocols.messages.pods import NodePod
from protocols.wire import podresources_v1_pb2 as v1
from protocols.wire import podresources_v1alpha1_pb2 as v1alpha1
from protocols.wire.pod_resources import FINGERPRINT, GET, GET_ALLOCATABLE, LIST, LIST_V1ALPHA1, REVISION

Context = grpc.aio.ServicerContext[Any, Any]
Answer = Callable[[Any], tuple[bytes, str]]
"""From the request to the reply and the revision it shows."""


@dataclass(frozen=True)
class ListerOptions:
    pods: PodFeed
    allocatable: AllocatableFeed
    metrics: FrontDoorMetrics
    reception: Reception
    others: Callable[[], list[NodePod]] = list
    """Pods that hold nothing, for v1alpha1."""
    active_only: bool = True
    """False: v1's List has those too, as kubelet's had before 1.34."""


class Lister:
    def __init__(self, options: ListerOptions) -> None:
        self._options = options
        self.list = self._method("list", LIST.path, self._list)
        self.get = self._method("get", GET.path, self._get)
        self.get_allocatable = self._method("get_allocatable", GET_ALLOCATABLE.path, self._get_allocatable)
        self.list_v1alpha1 = self._method("list", LIST_V1ALPHA1.path, self._list_v1alpha1)

    def _method(self, kind: str, path: str, answer: Answer) -> Callable[[Any, Context], Any]:
        """What every unary call shares: the rate, the figures, the position, the error's code."""
        version, name = path[1:].partition(".")[0], path.rpartition("/")[2]
        told = name if version == "v1" else f"{version}.{name}"
        metrics, reception = self._options.metrics, self._options.reception

        async def call(request: Any, context: Context) -> bytes:
            try:
                reception.called(context, told, limited=True)
                metrics.request(kind, version)
                reply, revision = answer(request)
            except RateExceeded as error:  # before anything is counted, as an interceptor does it
                await context.abort(grpc.StatusCode[error.grpc], str(error))
            except NodeplaneError as error:
                metrics.error(kind, version)
                await context.abort(grpc.StatusCode[error.grpc], str(error))
            await context.send_initial_metadata(((REVISION, revision), *self._asked_for(context, told)))
            return reply

        return call

    def _asked_for(self, context: Context, method: str) -> tuple[tuple[str, str], ...]:
        """What else a client wants to know of a List."""
        if method == "List" and (FINGERPRINT, "1") in (context.invocation_metadata() or ()):
            return ((FINGERPRINT, self._options.pods.fingerprint()),)
        return ()

    def _list(self, request: v1.ListPodResourcesRequest) -> tuple[bytes, str]:
        pods = self._options.pods
        others = () if self._options.active_only else self._options.others()
        ended = [field(LISTED_POD, bare_pod(pod.namespace, pod.name, pod.containers)) for pod in others]
        return b"".join((pods.list_reply(), *ended)), pods.journal.revision()

    def _get(self, request: v1.GetPodResourcesRequest) -> tuple[bytes, str]:
        reply = self._options.pods.get_reply(request.pod_namespace, request.pod_name)
        if reply is None:
            raise PodUnknown(f"pod {request.pod_name} in namespace {request.pod_namespace} not found")
        return reply, self._options.pods.journal.revision()

    def _get_allocatable(self, request: v1.AllocatableResourcesRequest) -> tuple[bytes, str]:
        return self._options.allocatable.reply(), self._options.allocatable.journal.revision()

    def _list_v1alpha1(self, request: v1alpha1.ListPodResourcesRequest) -> tuple[bytes, str]:
        others = [old_bare(pod.namespace, pod.name, pod.containers) for pod in self._options.others()]
        listed = sorted(self._options.pods.old_list() + others, key=lambda pod: (pod.namespace, pod.name))
        reply = v1alpha1.ListPodResourcesResponse(pod_resources=listed)
        return reply.SerializeToString(), self._options.pods.journal.revision()
