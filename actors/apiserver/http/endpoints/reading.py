"""GET, LIST and WATCH.

A watch that fails after its options are read sends an ERROR event in a stream that began with status 200, as upstream.
"""

import asyncio
import random
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from msgspec.structs import replace

from actors.apiserver.api.encoding.negotiate import PLAIN, Headers
from actors.apiserver.api.encoding.render import list_parts, render_list, render_stored
from actors.apiserver.api.errors import BadRequest, ServiceUnavailable, invalid_options
from actors.apiserver.api.request.query import flag, resource_version
from actors.apiserver.api.request.target import verb_not_supported
from actors.apiserver.api.request.workers import offload, workers
from actors.apiserver.http.authentication.authenticator import TOKEN_PROTOCOL
from actors.apiserver.http.connection.connection import WatchStarted, take_over
from actors.apiserver.http.connection.requests import Request
from actors.apiserver.http.connection.responses import Reply, Response
from actors.apiserver.http.connection.unread import give_back, keep, seated
from actors.apiserver.http.fairness.control import WATCH, LongRunning
from actors.apiserver.http.telemetry.metrics import WatchMetrics
from actors.apiserver.reads.reader import Reader
from actors.apiserver.watch.begin import FutureWatches, Opened, open_watch
from actors.apiserver.watch.channel import error_bytes
from actors.apiserver.watch.connection import ConnectionOptions, WatchConnection
from actors.apiserver.watch.hub import Hub
from actors.apiserver.watch.scope import Scope
from protocols.kinds.check.causes import forbidden
from protocols.kube.errors import StatusError
from protocols.streams.accepting import ProtocolUnknown, accept_websocket, is_websocket_request, send_until_closed
from protocols.streams.event_messages import MessageTransport


class Reading:
    """GET of an object or a collection; long lists are encoded while they are written."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def get(self, request: Request) -> Reply:
        """Raises BadRequest, NotFound."""
        if flag(request.query, "export"):
            raise BadRequest("the export parameter, deprecated since v1.14, is no longer supported")
        version = resource_version(request.query.get("resourceVersion", ""))
        stored = await self._reader.get(request.target, version)
        resource, form = request.target.resource, request.form
        if form == PLAIN:
            return Reply(render_stored(resource, stored, form), media_type=form.media_type)
        body = await offload(len(stored.raw), lambda: render_stored(resource, stored, form))
        return Reply(body, media_type=form.media_type)

    async def list(self, request: Request) -> Reply:
        listing = await self._reader.list(request.target, request.options, request.wanted)
        resource, form = request.target.resource, request.form
        warnings = [f"left out, since it cannot be read: {key}" for key in listing.corrupt]
        metadata = listing.metadata()
        parts = list_parts(resource, listing.objects, form, metadata)
        if form.protobuf or form.yaml:  # encoded at once, so off the event loop
            pieces = await workers().run(lambda: render_list(resource, listing.objects, form, metadata))
            parts = _released(pieces)
        first, second = next(parts), next(parts, None)
        rest = None if second is None else chain((second,), parts)
        return Reply(first, media_type=form.media_type, rest=rest, warnings=warnings)


def _released(pieces: list[bytes]) -> Iterator[bytes]:
    """Yield the pieces in order, and keep none that was taken."""
    pieces.reverse()
    while pieces:
        yield pieces.pop()


SHORTEST, LONGEST = 1800.0, 3600.0
"""Without timeoutSeconds a watch lasts a random time between these, so that clients do not come back all at once."""
NEEDS_PROGRESS = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
"""Clients match on this text, so it is upstream's."""


class Watching:
    """GET with watch: hands the connection over to the resource's hub."""

    def __init__(self, reader: Reader, hubs: dict[str, Hub], metrics: WatchMetrics, long_running: LongRunning) -> None:
        self._reader = reader
        self._hubs = hubs
        self._metrics = metrics
        self._future = FutureWatches(reader.revision)
        self._long_running = long_running
        self.closing = False
        self.reuse: Callable[[asyncio.Transport], None] = asyncio.Transport.close
        """Receives the connection of a watch that has ended."""

    async def watch(self, request: Request, warnings: Sequence[str] = ()) -> Response:
        """Begin a watch on the request's connection. `warnings` are sent in the head of the response.

        Raises TooManyRequests if the replica stays empty and for users with too many watches, ServiceUnavailable
        while this process shuts down, Invalid for initial events without the store's progress notifications (clients
        list instead).
        """
        row = request.target.resource
        if "watch" not in row.verbs or request.http.method == "HEAD":  # a response to HEAD has no body
            raise verb_not_supported(row, "watch")
        if self.closing:
            raise ServiceUnavailable("apiserver is shutting down")
        self._long_running.check(request.user, WATCH)
        if request.options.initial_events is not None and not self._reader.efficient:
            raise invalid_options("ListOptions", forbidden("sendInitialEvents", NEEDS_PROGRESS))
        answer = Reply(b"", media_type=request.form.stream_type, warnings=warnings)
        began = time.monotonic()
        hub = self._hubs[request.target.resource.gvr]
        await hub.replica.filled_soon()
        if is_websocket_request(request.http):
            return await self._send_messages(request, hub)
        try:
            opened = await self._open(request, hub)
        except StatusError as fault:
            return replace(answer, body=error_bytes(fault.status, request.form))
        if request.options.initial_events:
            opened = replace(opened, initial=self._timed(request, opened.initial, began))
        self._begin(request, hub, opened, answer.lines())
        return WatchStarted()

    async def _send_messages(self, request: Request, hub: Hub) -> Response:
        """Serve a watch over a websocket until it ends. Raises BadRequest."""
        http, transport = request.http, request.http.transport
        offered = [name.strip() for name in http.headers.get("Sec-WebSocket-Protocol", "").split(",")]
        try:
            response = await accept_websocket(http, next(n for n in (*offered, "") if not n.startswith(TOKEN_PROTOCOL)))
        except ProtocolUnknown as error:
            raise BadRequest(str(error)) from None
        if transport is None:
            raise ServiceUnavailable("the client is gone")
        messages = MessageTransport(response, transport, request.form.protobuf)
        with self._metrics.sending(request.target), self._long_running.held(request.user, WATCH):
            connection = await self._connected(request, hub, messages)
            try:
                await send_until_closed(response, messages.send())
            finally:
                if connection is not None:
                    connection.connection_lost(None)
        return response

    async def _connected(self, request: Request, hub: Hub, messages: MessageTransport) -> WatchConnection | None:
        """Begin a watch that writes messages; None if it ends with an error, which is one of them."""
        try:
            opened = await self._open(request, hub)
        except StatusError as fault:
            messages.write(error_bytes(fault.status, request.form))
            messages.close()
            give_back.get()()
            return None
        seconds = min(_seconds(request.options.timeout), max(0.0, request.expires - time.time()))
        options = ConnectionOptions(hub, seconds, False, False, ended=_nothing, reuse=asyncio.Transport.close)
        connection = WatchConnection(options, messages, opened.watcher)
        connection.begin((), seated(opened.initial, give_back.get()), congested=False)
        self._future.add(hub, opened.watcher)
        return connection

    def close(self) -> None:
        """Call it once no watch is open."""
        self._future.close()

    def _timed(self, request: Request, initial: Iterator[bytes], began: float) -> Iterator[bytes]:
        target = request.target
        yield from initial
        self._metrics.listed(target, time.monotonic() - began)

    def _begin(self, request: Request, hub: Hub, opened: Opened, headers: Headers) -> None:
        """Start the stream. No await may stand between joining the hub and this call."""
        http = request.http
        congested = http.protocol.writing_paused
        try:
            transport = take_over(http)
        except ServiceUnavailable:
            opened.watcher.lost()
            raise
        wanted, left = _seconds(request.options.timeout), max(0.0, request.expires - time.time())
        options = ConnectionOptions(
            hub=hub,
            seconds=min(wanted, left),
            chunked=http.version >= (1, 1),
            keep_alive=http.keep_alive and wanted < left and not self.closing,
            ended=self._ended(request),
            reuse=self.reuse,
        )
        connection = WatchConnection(options, transport, opened.watcher)
        if congested:  # nothing is written before the client reads
            connection.begin(headers, opened.initial, congested)
        else:
            connection.begin(headers, seated(opened.initial, give_back.get()), congested)
            keep.get()()
        self._future.add(hub, opened.watcher)

    def _ended(self, request: Request) -> Callable[[], None]:
        count, release = self._metrics.began(request.target), self._long_running.begin(request.user, WATCH)

        def ended() -> None:
            release()
            count()

        return ended

    async def _open(self, request: Request, hub: Hub) -> Opened:
        options = request.options
        scope = Scope(request.target.namespace, request.wanted, request.form)
        if options.version is None:
            await self._reach_now(hub)
            if options.initial_events is False:
                options = replace(options, version=hub.replica.mark)
        elif options.initial_events:
            await self._reader.wait(request.target.resource, options.version)
        if self._hubs.get(hub.resource.gvr) is not hub:  # retired meanwhile: no event would come
            raise ServiceUnavailable("the definition of the resource has changed: try again")
        return open_watch(hub, scope, options)

    async def _reach_now(self, hub: Hub) -> None:
        """Wait until the replica has reached the store's present revision.

        Without progress notifications the age of a replica is unknown: the watch begins at the replica's revision, as
        upstream without the feature gate.
        """
        if self._reader.efficient:
            await self._reader.fresh(hub.resource)


def _nothing() -> None:
    """Stand in for the end of a watch that its own task counts."""


def _seconds(asked: int) -> float:
    return max(0.0, asked) if asked else random.uniform(SHORTEST, LONGEST)
