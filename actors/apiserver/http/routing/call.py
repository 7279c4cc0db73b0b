"""A request in progress: its state for errors, metrics and the audit log, and the Status response to its errors."""

import logging
import time

import msgspec
from aiohttp import web
from msgspec.structs import replace

from actors.apiserver.api.errors import NEVER_AGAIN, BadRequest, InternalError, RequestTimeout, as_api_error
from actors.apiserver.api.request.target import Target
from actors.apiserver.authorization.rbac.rules import Decision
from actors.apiserver.http.authentication.authenticator import Identity
from actors.apiserver.http.connection.responses import Reply, Response
from actors.apiserver.http.routing.route import Route
from actors.apiserver.http.telemetry.audit import CREATED, FAULT, Subject, subject
from actors.apiserver.http.telemetry.metrics import Place, counted_verb, place_of
from protocols.errors import NodeplaneError
from protocols.kube.errors import StatusError

NOWHERE = place_of(None)


class Call:
    """One request: set by its handler as it learns user and route, read by metrics, errors and the audit log."""

    __slots__ = ("began", "decision", "http", "identity", "route", "seconds", "verb")

    def __init__(self, http: web.BaseRequest) -> None:
        self.http = http
        self.began = time.monotonic()
        self.decision: Decision | None = None
        """None before it is allowed."""
        self.identity: Identity | None = None
        self.route: Route | None = None
        """None before it is resolved, and for paths that are no resource."""
        self.seconds = 0.0
        """Time limit; 0 = none yet."""
        self.verb = http.method.lower()

    @property
    def left(self) -> float:
        """Seconds until the deadline: the time in a queue counts."""
        return self.began + self.seconds - time.monotonic()

    @property
    def target(self) -> Target | None:
        return None if self.route is None else self.route.target

    @property
    def subject(self) -> Subject:
        route = self.route
        if route is None:
            return subject(self.http.path, None)
        if created := self.http.get(CREATED):
            return subject(self.http.path, replace(route.target, name=created))
        if route.subject is None:
            route.subject = subject(self.http.path, route.target)
        return route.subject

    @property
    def place(self) -> Place:
        return NOWHERE if self.route is None else self.route.place

    @property
    def counted(self) -> str:
        return counted_verb(self.verb, self.http.headers)


READS = ("GET", "HEAD")
"""Methods of requests that clients may repeat whatever became of them."""
CLIENT_LEFT = 499
"""Status of metrics and the audit log for a client that disconnected; never sent."""


def error_response(call: Call, error: Exception) -> Response:
    """Return the response to an error. Call it in the except clause: it logs the traceback of a bug."""
    if isinstance(error, TimeoutError) and call.seconds:
        error = RequestTimeout(call.seconds, 1 if call.http.method in READS else NEVER_AGAIN)
    if isinstance(error, NodeplaneError):
        fault = error if isinstance(error, StatusError) else as_api_error(error)
    elif isinstance(error, RecursionError):  # only objects of clients are nested that deep
        fault = BadRequest("the object provided is nested too deeply")
    elif isinstance(error, ConnectionError):
        return web.Response(status=CLIENT_LEFT)
    else:  # a bug: the client gets a Status, the log the traceback
        logging.getLogger(__name__).exception("%s %s failed", call.http.method, call.http.path)
        fault = InternalError(f"{type(error).__name__}: {error}")
    call.http[FAULT] = fault.status
    return _error_reply(call, fault).response()


def _error_reply(call: Call, fault: StatusError) -> Reply:
    """Add the warnings of the resource, which only authorized users may see, and those of the object sent."""
    route_warnings = call.route.warnings if call.route is not None and fault.code not in (401, 403) else ()
    return replace(status_reply(fault), warnings=(*route_warnings, *fault.warnings))


def status_reply(fault: StatusError) -> Reply:
    """Return the response to an error: its Status, with Retry-After or WWW-Authenticate where that applies."""
    headers = {"Retry-After": str(fault.retry_after)} if fault.retry_after else {}
    if fault.code == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="nodeplane"'
    return Reply(msgspec.json.encode(fault.status) + b"\n", fault.code, headers=headers)
