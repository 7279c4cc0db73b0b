"""kubelet's pod resources socket, asked with deadlines."""

from pathlib import Path
from typing import Any, TypeVar

import grpc
import grpc.aio

from actors.adopt.errors import KubeletAway, KubeletBusy
from protocols.wire import podresources_v1_pb2 as v1
from protocols.wire.methods import CLIENT_OPTIONS, Method
from protocols.wire.pod_resources import GET_ALLOCATABLE, LIST

ANSWER_S = 5.0
RECONNECT = (
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
)
M = TypeVar("M")


class Kubelet:
    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._channel = grpc.aio.insecure_channel(f"unix:{socket}", options=(*CLIENT_OPTIONS, *RECONNECT))
        self.tells_allocatable = True
        """False for one that is too old, or has GetAllocatableResources turned off."""

    async def close(self) -> None:
        await self._channel.close()

    async def list(self) -> v1.ListPodResourcesResponse:
        return await self._ask(LIST)

    async def allocatable(self) -> v1.AllocatableResourcesResponse:
        """Empty from a kubelet that cannot tell."""
        try:
            reply = await self._ask(GET_ALLOCATABLE)
        except _Refused:
            self.tells_allocatable = False
            return v1.AllocatableResourcesResponse()
        self.tells_allocatable = True
        return reply

    async def _ask(self, method: Method[Any, M]) -> M:  # type: ignore[type-var]  # every reply is a message
        try:
            return await method.unary(self._channel)(method.request(), timeout=ANSWER_S)
        except grpc.aio.AioRpcError as error:
            raise _told(error, self._socket) from None


class _Refused(KubeletAway):
    """Raised for a method that this kubelet does not offer."""


def _told(error: grpc.aio.AioRpcError, socket: Path) -> KubeletAway | KubeletBusy:
    code, text = error.code(), error.details()
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return KubeletBusy(f"kubelet refused: {text}; it is asked again")
    if code in (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.UNKNOWN):
        return _Refused(f"kubelet at {socket} refused: {text}")
    return KubeletAway(f"kubelet does not answer at {socket} ({code.name}); is it running, and is the path right?")
