"""One request from its first line to its answer: who, what, may they, do it; every fault becomes a Status."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec
from aiohttp import web
from msgspec.structs import replace

from actors.apiserver.answers.negotiate import check_form, negotiate
from actors.apiserver.answers.pretty import indented, is_for_people
from actors.apiserver.authentication.user import User
from actors.apiserver.authorization.attributes import Attributes
from actors.apiserver.catalog.table import Table
from actors.apiserver.custom.serving import Serving
from actors.apiserver.endpoints.connecting import Connecting, connect_verb
from actors.apiserver.endpoints.evicting import Evicting
from actors.apiserver.endpoints.long import LongResponse
from actors.apiserver.endpoints.reading import Reading
from actors.apiserver.endpoints.reviews import Reviews
from actors.apiserver.endpoints.scaling import Scaling
from actors.apiserver.endpoints.static import Static
from actors.apiserver.endpoints.tokens import Tokens
from actors.apiserver.endpoints.types import Reply, Request
from actors.apiserver.endpoints.usage import Usage
from actors.apiserver.endpoints.watching import Watching
from actors.apiserver.endpoints.whole import WholeResponse
from actors.apiserver.endpoints.writing import Writing
from actors.apiserver.errors.answers import BadRequest, InternalError, MethodNotAllowed, NotFound, RequestTimeout
from actors.apiserver.errors.faults import as_fault
from actors.apiserver.metrics.requests import RequestMetrics, counted_verb, place_of
from actors.apiserver.reads.selection import selection
from actors.apiserver.request.gate import Gate, Identity, Outcome
from actors.apiserver.request.numbers import request_seconds
from actors.apiserver.request.query import ListOptions, list_options
from actors.apiserver.request.target import Target, Targets
from actors.apiserver.watch.takeover import Detached
from protocols.deadlines import Deadlines
from protocols.errors import NodeplaneError
from protocols.kube.status import StatusError

REQUEST_SECONDS = 60.0
WRITE_SECONDS = 34.0
CLIENT_LEFT = 499
"""Counted, never sent: nobody is there to read it."""
COLLECTION = ("list", "deletecollection")
SIZED = ("get", "list", "head")
"""The size of their answers is measured."""


class Handler:
    def __init__(
        self,
        table: Table,
        gate: Gate,
        static: Static,
        reading: Reading,
        writing: Writing,
        watching: Watching,
        connecting: Connecting,
        reviews: Reviews,
        usage: Usage,
        tokens: Tokens,
        evicting: Evicting,
        metrics: RequestMetrics,
        serving: Serving,
        scaling: Scaling,
    ) -> None:
        self._serving = serving
        self._scales = {"get": scaling.get, "update": scaling.update, "patch": scaling.patch}
        self._targets, self._gate, self._static = Targets(table), gate, static
        self._deadlines = Deadlines()
        self._authorizer = gate.authorizer
        self._virtual = {"create": reviews.create, "get": usage.get, "list": usage.every}
        self._posts = {"eviction": evicting.create, "token": tokens.create}
        self._watching, self._connecting, self._metrics = watching, connecting, metrics
        self._verbs: dict[str, Callable[[Request], Awaitable[Reply]]] = {
            "get": reading.get,
            "list": reading.list,
            "create": writing.create,
            "update": writing.update,
            "patch": writing.patch,
            "delete": writing.delete,
            "deletecollection": writing.deletecollection,
        }

    async def __call__(self, http: web.BaseRequest) -> web.StreamResponse:
        started = time.monotonic()
        call = _Call(http)
        code, answered = CLIENT_LEFT, True
        try:
            response = await self._respond(call)
            if is_for_people(http):
                response = indented(response)
            code, answered = response.status, not isinstance(response, Detached)
            self._measure(call, response)
            return response
        finally:
            if answered:  # noted once the answer is out, which it does not hold up
                outcome = Outcome(code, time.monotonic() - started)
                asyncio.get_running_loop().call_soon(self._note, call, outcome)

    def _note(self, call: "_Call", outcome: Outcome) -> None:
        dry = "dryRun" in call.http.query
        self._metrics.answered(place_of(call.target), call.counted, dry, outcome.code, outcome.seconds)
        self._gate.note(call.http, call.identity, call.target, call.verb, outcome)

    def _measure(self, call: "_Call", response: web.StreamResponse) -> None:
        if call.verb not in SIZED:
            return
        place, verb = place_of(call.target), call.counted
        if isinstance(response, LongResponse):
            response.on_written = partial(self._metrics.answered_bytes, place, verb)
        elif isinstance(response, WholeResponse):
            self._metrics.answered_bytes(place, verb, len(response.body))

    async def _respond(self, call: "_Call") -> web.StreamResponse:
        http = call.http
        try:
            return await self._answer(call)
        except StatusError as fault:
            return _refusal(call, fault).response()
        except NodeplaneError as error:
            return _refusal(call, as_fault(error)).response()
        except RecursionError:  # only what a client sent can be nested that deep
            return status_reply(BadRequest("the object provided is nested too deeply")).response()
        except ConnectionError:
            return web.Response(status=CLIENT_LEFT)
        except Exception as error:  # a bug of ours: the client gets a Status, the log the place
            logging.getLogger(__name__).exception("%s %s failed", http.method, http.path)
            return status_reply(InternalError(f"{type(error).__name__}: {error}")).response()

    async def _answer(self, call: "_Call") -> web.StreamResponse:
        http = call.http
        call.identity = await self._gate.identify(http)
        user = call.identity.user
        call.target = target = await self._find(http) if _known(user) else None
        if target is None:
            return await self._answer_static(http, user)
        options = list_options(http.query) if target.verb in COLLECTION else ListOptions()
        call.verb = "watch" if options.watch and target.verb == "list" else target.verb
        request = self._request(http, user, target, options)
        self._authorizer.check(user, _attributes(request, call.verb))
        if self._connecting.serves(target.subresource):
            call.verb = "connect"
            self._authorizer.check(user, _attributes(request, connect_verb(target)))
            with self._metrics.connected(target):
                return await self._connecting.serve(request)
        if call.verb == "watch":
            return await self._watching.watch(request)
        limit = REQUEST_SECONDS if target.verb in ("get", "list") else WRITE_SECONDS
        made = await self._in_time(http, request_seconds(http.query, limit), self._action(target)(request))
        warnings = _told(target)
        return replace(made, warnings=(*warnings, *made.warnings)).response() if warnings else made.response()

    async def _find(self, http: web.BaseRequest) -> Target | None:
        """What the path names, by all that the store knows of custom resources. Raises NotFound, MethodNotAllowed."""
        method, path = http.method, http.rel_url.raw_path
        try:
            target = self._targets.of(method, path)
        except NotFound:
            await self._serving.look_again()
            target = self._targets.of(method, path)
        if target is not None and target.resource.custom is not None:
            await self._serving.filled(target.resource)
        return target

    def _action(self, target: Target) -> Callable[[Request], Awaitable[Reply]]:
        if target.resource.virtual:
            return self._virtual[target.verb]
        if target.subresource == "scale":
            return self._scales[target.verb]
        return self._posts.get(target.subresource) or self._verbs[target.verb]

    async def _answer_static(self, http: web.BaseRequest, user: User) -> web.StreamResponse:
        self._authorizer.check(user, Attributes("get" if http.method in ("GET", "HEAD") else http.method, http.path))
        if http.method not in ("GET", "HEAD"):
            raise MethodNotAllowed("the server does not allow this method on the requested resource")
        if http.path.startswith(("/apis", "/openapi")):
            await self._serving.look_again()
        reply = self._static.reply(http.path, http.query, http.headers.get("Accept", ""))
        return (await self._in_time(http, REQUEST_SECONDS, reply)).response()

    async def _in_time(self, http: web.BaseRequest, seconds: float, reply: Awaitable[Reply]) -> Reply:
        """Raises RequestTimeout."""
        try:
            with self._metrics.under_way(http.method), self._deadlines.within(seconds):
                return await reply
        except TimeoutError:
            raise RequestTimeout(seconds) from None

    def _request(self, http: web.BaseRequest, user: User, target: Target, options: ListOptions) -> Request:
        query, resource = http.query, target.resource
        form = negotiate(http.headers.get("Accept", ""), query.get("includeObject", ""))
        return Request(
            http=http,
            user=user,
            target=target,
            query=query,
            dry_runs=query.getall("dryRun", []),
            form=check_form(form, resource.api_version, resource.kind, options.watch),
            options=options,
            wanted=selection(resource, options.labels, options.fields),
        )


class _Call:
    """What is known of a request so far, for the metrics."""

    def __init__(self, http: web.BaseRequest) -> None:
        self.http = http
        self.target: Target | None = None
        self.identity: Identity | None = None
        self.verb = http.method.lower()

    @property
    def counted(self) -> str:
        return counted_verb(self.verb, self.http.headers)


def _refusal(call: _Call, fault: StatusError) -> Reply:
    """With the warnings of the resource, for those who may ask of it, and of what was sent."""
    told = _told(call.target) if call.target is not None and fault.code not in (401, 403) else ()
    return replace(status_reply(fault), warnings=(*told, *fault.warnings))


def _told(target: Target) -> tuple[str, ...]:
    """Warnings of everything that is asked of this resource."""
    custom = target.resource.custom
    return (custom.warning,) if custom is not None and custom.warning else ()


def _known(user: User) -> bool:
    """Strangers do not learn which resources exist."""
    return user.name != "system:anonymous"


def _attributes(request: Request, verb: str) -> Attributes:
    target = request.target
    itself = target.name if target.resource.full_name == "namespaces" else ""  # a namespace lies within itself
    return Attributes(
        verb=verb,
        path=request.http.path,
        group=target.resource.group,
        resource=target.resource.plural,
        subresource=target.subresource,
        namespace=target.namespace or itself,
        name=target.name or request.wanted.name,
        fields=request.wanted.equals,
    )


def status_reply(fault: StatusError) -> Reply:
    headers = {"Retry-After": str(fault.retry_after)} if fault.retry_after else {}
    if fault.code == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="nodeplane"'
    return Reply(msgspec.json.encode(fault.status) + b"\n", fault.code, headers=headers)
