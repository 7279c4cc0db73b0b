"""One watch on a stream of its own: so its progress depends on no other watch."""

import asyncio
from types import TracebackType
from typing import Any

import grpc

from protocols.etcd.errors import Compacted, DeadlineExceeded, EtcdError, Unavailable, WatchCanceled, etcd_error
from protocols.etcd.members import Method
from protocols.etcd.types import WatchBatch, WatchEvent, watch_event
from protocols.wire import etcd_pb2 as pb

LEADER = (("hasleader", "true"),)
"""Makes a member without a leader end the stream instead of keeping it silent."""


class Watch:
    """An asynchronous iterator of batches; a context manager, too.

    Entering returns once the store has confirmed the watch; `start_revision` may still be compacted, which the first
    batch reports. Entering and iterating raise Compacted, WatchCanceled, Unavailable. Revisions never fall.

        async with client.watch(...) as watch:
            async for batch in watch:
    """

    def __init__(self, method: Method, request: pb.WatchCreateRequest, timeout: float) -> None:
        self._method, self._request, self._timeout = method, request, timeout
        self._member = 0
        self._call: Any = None
        self._ended = False
        self._parts: list[WatchEvent] = []
        self._floor = max(request.start_revision - 1, 0)
        self.revision = 0
        """The store's revision when the watch was confirmed."""

    async def __aenter__(self) -> "Watch":
        members = self._method.members
        self._member = await members.connected(self._timeout)
        stub = self._method.stub(self._member)
        self._call = stub(metadata=LEADER, wait_for_ready=not members.several)
        try:
            async with asyncio.timeout(self._timeout):
                await self._open()
        except TimeoutError:
            self._leave()
            raise DeadlineExceeded(f"the store did not confirm a watch within {self._timeout:g} s") from None
        except BaseException:
            self._call.cancel()
            raise
        return self

    async def _open(self) -> None:
        await self._write(pb.WatchRequest(create_request=self._request))
        response = await self._read()
        if response.canceled:
            raise _canceled(response)
        self.revision = response.header.revision

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call.cancel()

    def __aiter__(self) -> "Watch":
        return self

    async def __anext__(self) -> WatchBatch:
        while True:
            response = await self._read()
            if response.canceled:
                raise _canceled(response)
            self._parts.extend(watch_event(event) for event in response.events)
            events = self._whole(response.fragment)
            if response.fragment and not events:
                continue
            reached = events[-1].kv.mod_revision if events else response.header.revision
            # Some etcd versions report progress below a watch's start: such a message says nothing.
            if events or reached >= self._floor:
                self._floor = max(self._floor, reached)
                return WatchBatch(self._floor, events)

    def _whole(self, goes_on: bool) -> list[WatchEvent]:
        """Return the events received so far; if the response goes on, without those of its last revision.

        Holding back the whole response could fill the memory: one may have a thousand large changes.
        """
        parts = self._parts
        end = len(parts)
        if goes_on:
            last = parts[-1].kv.mod_revision if parts else 0
            end = next((at for at, event in enumerate(parts) if event.kv.mod_revision == last), 0)
        self._parts = parts[end:]
        return parts[:end]

    @property
    def more(self) -> bool:
        """True when the next batch has arrived."""
        return bool(self._call.more)

    def hold(self) -> None:
        """Leave further batches in the kernel until the iteration resumes."""
        self._call.hold()

    async def request_progress(self) -> None:
        """Ask for a batch without events, soon. The store stays silent while the watch is catching up."""
        await self._write(pb.WatchRequest(progress_request=pb.WatchProgressRequest()))

    def cancel(self) -> None:
        """Give the stream up: the iteration raises Unavailable, and the next watch goes to another member."""
        self._ended = True
        self._leave()

    def _leave(self) -> None:
        self._method.members.blame(self._member)
        self._call.cancel()

    async def _write(self, request: pb.WatchRequest) -> None:
        try:
            await self._call.write(request)
        except grpc.aio.AioRpcError as error:
            raise self._blamed(etcd_error(error)) from None
        except asyncio.InvalidStateError:
            raise self._blamed(Unavailable("the watch is closed")) from None

    async def _read(self) -> pb.WatchResponse:
        try:
            response = await self._call.read()
        except asyncio.CancelledError:
            if self._ended:  # our own cancel() looks like this; any other one is the task's
                raise self._blamed(Unavailable("the watch was cancelled")) from None
            raise
        except grpc.aio.AioRpcError as error:
            raise self._blamed(etcd_error(error)) from None
        if not isinstance(response, pb.WatchResponse):
            raise self._blamed(Unavailable("the store ended the watch stream"))
        return response

    def _blamed(self, error: EtcdError) -> EtcdError:
        return self._method.members.blamed(self._member, error)


def _canceled(response: pb.WatchResponse) -> Compacted | WatchCanceled:
    if response.compact_revision:
        text = f"the watch's start is compacted; the oldest revision served is {response.compact_revision}"
        return Compacted(text, response.compact_revision)
    return WatchCanceled(response.cancel_reason or "etcdserver: watch canceled")
