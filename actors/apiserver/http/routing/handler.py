"""Handle one request, from its head to the response."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec
from aiohttp import hdrs, web
from msgspec.structs import replace

from actors.apiserver.api.encoding.negotiate import check_form, negotiate
from actors.apiserver.api.errors import Forbidden, MethodNotAllowed, NotFound, Unauthorized
from actors.apiserver.api.request import workers
from actors.apiserver.api.request.query import ListOptions, flag, list_options, request_seconds
from actors.apiserver.api.request.selection import equalities, selection
from actors.apiserver.api.request.target import Attributes, query_of
from actors.apiserver.api.request.user import ANONYMOUS, User
from actors.apiserver.authorization.rbac.rules import Decision
from actors.apiserver.custom.serving import Serving
from actors.apiserver.http.authentication.authenticator import Authenticator, Identity
from actors.apiserver.http.connection.connection import WatchStarted
from actors.apiserver.http.connection.requests import Request
from actors.apiserver.http.connection.responses import (
    AUDIT_ID,
    LongResponse,
    Reply,
    Response,
    indented,
    wants_pretty,
)
from actors.apiserver.http.endpoints.nonresource import NonResource
from actors.apiserver.http.nodes.connecting import KINDS, connect_verb
from actors.apiserver.http.routing.call import CLIENT_LEFT, Call, error_response
from actors.apiserver.http.routing.route import Endpoints, Route, Routes, attributes_of
from actors.apiserver.http.routing.seats import Seats
from actors.apiserver.http.telemetry.audit import ANNOTATIONS, audit_id, is_audited
from actors.apiserver.http.telemetry.metrics import RequestMetrics
from protocols.kinds.served.row import Table
from protocols.process.deadlines import Deadlines
from protocols.trace import clock

REQUEST_SECONDS = 60.0
WRITE_SECONDS = 34.0
LONGEST_STREAM_SECONDS = 30 * 86400.0
"""Longest exec, attach, portforward or log: a bound for credentials that do not expire."""
COLLECTION = ("list", "deletecollection")
SIZED = ("get", "list", "head")
"""Verbs whose response size is measured."""
NO_OPTIONS = ListOptions()
DENIED = Decision(False)


class HandlerOptions(msgspec.Struct, frozen=True):
    """Parts that a request passes through."""

    table: Table
    authenticator: Authenticator
    endpoints: Endpoints
    nonresource: NonResource
    serving: Serving
    seats: Seats
    metrics: RequestMetrics
    newest_pods: Callable[[], Awaitable[object]]
    """Bring the replica of pods up to date with the store."""


class Handler:
    """Serve one request: authenticate, authorize, route, act; every error becomes a Status."""

    def __init__(self, options: HandlerOptions) -> None:
        self._authenticator, self._authorizer = options.authenticator, options.authenticator.authorizer
        self._routes = Routes(options.table, options.endpoints.action)
        self._watching, self._connecting = options.endpoints.watching, options.endpoints.connecting
        self._nonresource, self._serving = options.nonresource, options.serving
        self._seats, self._metrics = options.seats, options.metrics
        self._newest_pods = options.newest_pods
        self._deadlines = Deadlines()

    async def __call__(self, http: web.BaseRequest) -> Response:
        call, code, answered = Call(http), CLIENT_LEFT, True
        try:
            try:
                response = await self._answer(call)
            except Exception as error:
                response = error_response(call, error)
            if wants_pretty(http):
                response = indented(response)
            code, answered = response.status, not isinstance(response, WatchStarted)
            if is_audited(call.verb, call.target) and AUDIT_ID not in http:
                http[AUDIT_ID] = audit_id(http.headers)
            self._measure(call, response)
            return response
        finally:
            if answered:  # after the response is sent, so that it does not delay it
                asyncio.get_running_loop().call_soon(self._note, call, code, time.monotonic() - call.began)

    def _note(self, call: Call, code: int, seconds: float) -> None:
        self._metrics.answered(call.place, call.counted, "dryRun" in call.http.query, code, seconds)
        self._audit(call, code, seconds)

    def _audit(self, call: Call, code: int, seconds: float) -> None:
        if is_audited(call.verb, call.target):
            decision = call.decision or (DENIED if code == 403 and call.identity is not None else None)
            if decision is not None:
                call.http[ANNOTATIONS] = {**decision.annotations, **call.http.get(ANNOTATIONS, {})}
            self._authenticator.note(call.http, call.identity, call.subject, call.verb, code, seconds)

    def _measure(self, call: Call, response: Response) -> None:
        if call.verb not in SIZED:
            return
        if isinstance(response, LongResponse):
            response.on_written = partial(self._metrics.answered_bytes, call.place, call.counted)
        elif isinstance(response, Reply):
            self._metrics.answered_bytes(call.place, call.counted, len(response.body))

    async def _answer(self, call: Call) -> Response:
        http = call.http
        authenticator, asked = self._authenticator, partial(self._asked, call)
        call.identity = identity = authenticator.certified(http, asked) or await authenticator.proven(http, asked)
        user = identity.user
        turn = self._seats.take(http, user, self._routes, call.began)
        if turn is not None:
            await turn
        workers.user.set(user.name)
        if user.name == ANONYMOUS.name:  # anonymous users do not learn which resources exist
            return await self._answer_nonresource(call, user)
        call.route = route = self._routes.known(http) or await self._find(http)
        if route is None:
            return await self._answer_nonresource(call, user)
        wanted = _attributes(call, route)
        try:
            call.decision = self._authorizer.check(user, wanted)
        except Forbidden:
            call.decision = await self._authorizer.check_again(user, wanted, self._newest_pods)
        request = self._request(call, identity, route)
        if self._connecting.serves(route.target.subresource):
            return await self._connect(call, route, request)
        if call.verb == "watch":
            return await self._watching.watch(request, route.warnings)
        limit = REQUEST_SECONDS if route.target.verb in ("get", "list") else WRITE_SECONDS
        call.seconds = request_seconds(request.query, limit)
        with self._metrics.under_way(http.method), self._deadlines.within(call.left):
            reply = await route.action(request)
        return (replace(reply, warnings=(*route.warnings, *reply.warnings)) if route.warnings else reply).response()

    def _asked(self, call: Call) -> Attributes:
        """Return the attributes of a request whose user is not known yet."""
        route = self._routes.known(call.http) or self._routes.guess(call.http)
        if route is None:
            return _path_attributes(call.http)
        wanted = _attributes(call, route)
        return replace(wanted, verb=connect_verb(route.target)) if call.verb == route.target.verb else wanted

    async def _find(self, http: web.BaseRequest) -> Route | None:
        """Return the route of the path, with the newest definitions of custom resources in the store.

        Raises NotFound, MethodNotAllowed.
        """
        method, path = http.method, http.rel_url.raw_path
        try:
            route = self._routes.of(method, path)
        except NotFound:
            await self._serving.catch_up()
            route = self._routes.of(method, path)
        if route is not None and route.target.resource.custom is not None:
            await self._serving.filled(route.target.resource)
        return route

    def _request(self, call: Call, identity: Identity, route: Route) -> Request:
        http, target = call.http, route.target
        query, row = query_of(target, http.query), target.resource
        options = list_options(query) if target.verb in COLLECTION else NO_OPTIONS
        form = negotiate(http.headers.get(hdrs.ACCEPT, ""), query.get("includeObject", ""))
        form = check_form(form, row, "watch" if options.watch else target.verb)
        selects = options.labels or options.fields
        wanted = selection(row, options.labels, options.fields) if selects else route.everything
        dry_runs = http.query.getall("dryRun", [])
        expires = identity.expires
        return Request(http, identity.user, target, query, dry_runs, form, options, wanted, expires, clock())

    async def _connect(self, call: Call, route: Route, request: Request) -> Response:
        call.verb = "connect"
        verb = connect_verb(route.target)
        self._authorizer.check(request.user, attributes_of(route.target, verb, call.http.path))
        if route.target.subresource in KINDS:  # may last for days, and its end be lost
            call.http[AUDIT_ID] = audit_id(call.http.headers)
            self._audit(call, 0, time.monotonic() - call.began)
        with self._metrics.connected(route.target), self._seats.stream(request):
            return await self._until_expiry(request)

    async def _until_expiry(self, request: Request) -> Response:
        """Serve a stream until the client's credential expires. Raises Unauthorized before its first byte."""
        left = min(request.expires - time.time(), LONGEST_STREAM_SECONDS)
        try:
            async with asyncio.timeout(left) as limit:
                return await self._connecting.serve(request)
        except TimeoutError:
            if not limit.expired():
                raise
            if request.http.transport is not None:
                request.http.transport.abort()
            raise Unauthorized from None

    async def _answer_nonresource(self, call: Call, user: User) -> Response:
        http = call.http
        call.decision = self._authorizer.check(user, _path_attributes(http))
        if http.method not in ("GET", "HEAD"):
            raise MethodNotAllowed("the server does not allow this method on the requested resource")
        if http.path.startswith(("/apis", "/openapi")):
            await self._serving.catch_up()
        call.seconds = REQUEST_SECONDS
        with self._metrics.under_way(http.method), self._deadlines.within(call.seconds):
            return (await self._nonresource.reply(http.path, http.query, http.headers)).response()


def _path_attributes(http: web.BaseRequest) -> Attributes:
    return Attributes("get" if http.method in ("GET", "HEAD") else http.method.lower(), http.path)


def _attributes(call: Call, route: Route) -> Attributes:
    """Return the attributes of a request for authorization. Only the options that authorization needs are parsed."""
    target = route.target
    query = query_of(target, call.http.query)
    call.verb = "watch" if target.verb == "list" and flag(query, "watch") else target.verb
    fields = query.get("fieldSelector", "") if target.verb in COLLECTION else ""
    if not fields and call.verb == target.verb:
        return route.attributes
    return attributes_of(target, call.verb, call.http.path, equalities(fields))
