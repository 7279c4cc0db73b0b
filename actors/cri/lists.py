"""Lists that do not fit in one message are read in pieces, from a runtime that can do that (KEP-5825)."""

from enum import Enum

import grpc
import grpc.aio

from actors.cri.channel import RuntimeChannel
from actors.cri.operations import STREAMED, Operation
from protocols.wire import cri_pb2

PROBE_S = 5.0
NOBODY = "0" * 64


class Streaming(Enum):
    UNKNOWN = "unknown"
    YES = "yes"
    NO = "no"


class Lists:
    """Whole lists as long as they fit: they cost less. The first that does not makes it pieces for good."""

    def __init__(self, channel: RuntimeChannel) -> None:
        self._channel = channel
        self._long: set[str] = set()
        self.streaming = Streaming.UNKNOWN

    async def probe(self) -> None:
        """Ask for the pieces of a list of nothing: a runtime that cannot says so (or, very old ones, sends nothing)."""
        filter_ = cri_pb2.PodSandboxFilter(id=NOBODY)
        request = cri_pb2.ListPodSandboxRequest(filter=filter_).SerializeToString()
        try:
            await self._channel.pieces(STREAMED["ListPodSandbox"], request, PROBE_S)
            self.streaming = Streaming.YES
        except grpc.aio.AioRpcError as error:
            known = error.code() is grpc.StatusCode.UNIMPLEMENTED
            self.streaming = Streaming.NO if known else Streaming.UNKNOWN

    async def call(self, name: str, operation: Operation, request: bytes, timeout: float) -> bytes:
        """Raises grpc.aio.AioRpcError, ListTooLong."""
        if name in self._long and self.streaming is Streaming.YES:
            return await self._channel.pieces(STREAMED[name], request, timeout)
        try:
            return await self._channel.call(operation, request, timeout)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED or self.streaming is not Streaming.YES:
                raise
        self._long.add(name)
        return await self._channel.pieces(STREAMED[name], request, timeout)
