"""Client of kubelet's pod resources socket, with deadlines."""

from pathlib import Path
from typing import Any, TypeVar

import grpc
import grpc.aio

from actors.adopt.errors import KubeletBusy, KubeletUnavailable, MethodUnsupported
from protocols.wire import podresources_v1_pb2 as v1
from protocols.wire.methods import CLIENT_OPTIONS, MalformedReply, Method
from protocols.wire.pod_resources import GET_ALLOCATABLE, LIST

CALL_TIMEOUT_S = 5.0
RECONNECT_OPTIONS = (
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
)
M = TypeVar("M")


class KubeletClient:
    """Calls of kubelet's API; the connection is made anew when kubelet restarts."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._channel = grpc.aio.insecure_channel(f"unix:{socket}", options=(*CLIENT_OPTIONS, *RECONNECT_OPTIONS))
        self.supports_allocatable = True
        """False after kubelet rejected GetAllocatableResources: it is too old, or has it turned off."""

    async def close(self) -> None:
        await self._channel.close()

    async def list(self) -> v1.ListPodResourcesResponse:
        return await self._call(LIST)

    async def allocatable(self) -> v1.AllocatableResourcesResponse:
        """Return the allocatable resources; an empty response from a kubelet that does not support the method."""
        try:
            response = await self._call(GET_ALLOCATABLE)
        except MethodUnsupported:
            self.supports_allocatable = False
            return v1.AllocatableResourcesResponse()
        self.supports_allocatable = True
        return response

    async def _call(self, method: Method[Any, M]) -> M:  # type: ignore[type-var]  # every response is a message
        try:
            return await method.unary(self._channel)(method.request(), timeout=CALL_TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            raise _translate(error, self._socket) from None


def _translate(error: grpc.aio.AioRpcError, socket: Path) -> KubeletUnavailable | KubeletBusy:
    code, text = error.code(), error.details()
    if isinstance(error, MalformedReply):
        return KubeletUnavailable(f"kubelet at {socket} does not speak the pod resources API: {text}; retrying")
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return KubeletBusy(f"kubelet rejected the call: {text}; it is retried")
    # kubelet answers UNKNOWN, with a text, for a method whose feature is turned off.
    if code in (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.UNKNOWN):
        return MethodUnsupported(f"kubelet at {socket} rejected the call: {text}")
    return KubeletUnavailable(
        f"kubelet does not answer at {socket} ({code.name}); is it running, and is the path right?"
    )
