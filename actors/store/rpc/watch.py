"""etcd's Watch service: pass requests to a session, and the session's queue to the client."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from typing import Any, TypeAlias

import grpc

from actors.store.engine.core import Core
from actors.store.file.history import changes_since
from actors.store.model.types import KeyChange
from actors.store.watch.session import WatchSession
from actors.store.watch.watchers import Watcher, strip_compacted
from protocols.process.tasks import Tasks, report
from protocols.wire import etcd_pb2 as pb

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
READ_CHANGES = 500
"""Changes read from the file at a time, for a watcher that starts far in the past."""


class WatchService:
    """Serves one WatchStream per call."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def watch(self, requests: AsyncIterator[pb.WatchRequest], context: Context) -> None:
        stream = WatchStream(self._core)
        self._core.hub.add(stream.session, stream.wake.set)
        tasks = Tasks(stream.failed)
        tasks.start(stream.receive(requests), "watch requests")
        tasks.start(stream.tick(), "watch progress")
        try:
            await stream.send(context)
        finally:
            self._core.hub.remove(stream.session)
            await tasks.close()


class WatchStream:
    """A session with the tasks that receive, send and tick."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.session = WatchSession(core.options, core.hub.revision, core.header)
        self.wake = asyncio.Event()
        self._room = asyncio.Event()
        self._progress = asyncio.Event()
        self._fault: BaseException | None = None

    def failed(self, task: str, error: BaseException) -> None:
        """End the stream, so that the client opens another: without any of its tasks it is useless."""
        if isinstance(error, grpc.RpcError | asyncio.CancelledError):
            return  # the client left; the call ends by itself
        report(task, error)
        self._fault = error
        self.wake.set()

    async def receive(self, requests: AsyncIterator[pb.WatchRequest]) -> None:
        """Receive requests, no faster than their answers are sent."""
        async for request in requests:
            self._handle(request)
            self.wake.set()
            while self.session.full or len(self.session.queue) > 1000:
                self._room.clear()
                await self._room.wait()

    def _handle(self, request: pb.WatchRequest) -> None:
        match request.WhichOneof("request_union"):
            case "create_request":
                self.session.create(request.create_request)
                if request.create_request.progress_notify:
                    self._progress.set()
            case "cancel_request":
                self.session.cancel(request.cancel_request.watch_id)
            case "progress_request":
                self.session.request_progress()

    async def tick(self) -> None:
        """Tick for progress notifications, from the first watcher that requests them."""
        await self._progress.wait()
        interval = self._core.options.progress_interval * random.uniform(1.0, 1.1)
        while True:
            await asyncio.sleep(interval)
            self.session.tick()
            if self.session.queue:
                self.wake.set()

    async def send(self, context: Context) -> None:
        """Send the queue, then serve watchers that are behind, then wait. Raises what ended another task of it."""
        while self._fault is None:
            while self.session.queue:
                await context.write(self.session.pop())
                self._room.set()
            watcher = self.session.behind()
            if watcher is not None:
                await self._catch_up(watcher)
                await asyncio.sleep(0)  # a client may open thousands in the past, and each looks at all recent changes
            elif not self.session.queue:
                self.wake.clear()
                await self.wake.wait()
        raise self._fault

    async def _catch_up(self, watcher: Watcher) -> None:
        hub = self._core.hub
        batch = hub.recent(watcher)
        if batch is None and watcher.next_revision >= hub.compacted:
            batch = await self._read(watcher)
        # Check again after the read: the rows may have been compacted meanwhile.
        if batch is None or watcher.next_revision < hub.compacted:
            self.session.compacted(watcher, hub.compacted)
        else:
            changes, complete = batch
            self.session.caught_up(watcher, strip_compacted(changes, hub.compacted), complete)

    async def _read(self, watcher: Watcher) -> tuple[Sequence[KeyChange], int]:
        first, last = watcher.next_revision, self._core.hub.revision
        key, end = watcher.key, watcher.end
        return await self._core.read(lambda db: changes_since(db, key, end, first, last, READ_CHANGES))
