"""WATCH: everything that can fail after the options are read is an ERROR event inside a stream that began with 200."""

import random
from contextlib import suppress
from dataclasses import replace

from aiohttp import web

from actors.apiserver.endpoints.types import Request
from actors.apiserver.errors import ServiceUnavailable
from actors.apiserver.metrics import Metrics
from actors.apiserver.reads.reader import Reader
from actors.apiserver.watch.begin import Opened, open_watch
from actors.apiserver.watch.encode import error_bytes
from actors.apiserver.watch.hub import Hub, Scope
from actors.apiserver.watch.sink import AiohttpSink
from actors.apiserver.watch.stream import run_watch
from protocols.kube.status import StatusError

SHORTEST, LONGEST = 1800.0, 3600.0
"""Without timeoutSeconds a watch lasts a random time between these, so that clients do not come back all at once."""


class Watching:
    def __init__(self, reader: Reader, hubs: dict[str, Hub], metrics: Metrics) -> None:
        self._reader = reader
        self._hubs = hubs
        self._metrics = metrics
        self.closing = False

    async def watch(self, request: Request) -> web.StreamResponse:
        """Raises TooManyRequests while the replica is empty, ServiceUnavailable while this process leaves."""
        if self.closing:
            raise ServiceUnavailable("apiserver is shutting down")
        hub = self._hubs[request.target.resource.full_name]
        hub.replica.check_filled()
        sink = AiohttpSink(request.http)
        fault: StatusError | None = None
        try:
            opened = await self._open(request, hub)
        except StatusError as error:
            fault = error
        # A client that leaves is an ordinary end.
        with suppress(ConnectionError):
            await self._prepare(sink, request, fault, None if fault else opened, hub)
            if fault is not None:
                await sink.write(error_bytes(fault.status, request.form))
                await sink.close()
            else:
                with self._metrics.watching(request.target):
                    await run_watch(hub, opened, sink, _seconds(request.options.timeout))
        return sink.response

    async def _prepare(
        self, sink: AiohttpSink, request: Request, fault: StatusError | None, opened: Opened | None, hub: Hub
    ) -> None:
        try:
            await sink.open(request.form.stream_type)
        except BaseException:
            if opened is not None:
                hub.leave(opened.channel, opened.watcher)
            raise

    async def _open(self, request: Request, hub: Hub) -> Opened:
        options = request.options
        scope = Scope(request.target.namespace, request.wanted, request.form)
        if options.version is None:
            revision = await self._reader.fresh(request.target.resource)
            if options.initial_events is False:
                options = replace(options, version=revision.mark)
        elif options.initial_events:
            await hub.replica.wait_for(options.version)
        return open_watch(hub, scope, options)


def _seconds(asked: int) -> float:
    return float(asked) if asked else random.uniform(SHORTEST, LONGEST)
