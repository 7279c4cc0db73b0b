"""Turn every error of a request into a Status response."""

import logging

import msgspec
from aiohttp import web
from msgspec.structs import replace

from actors.apiserver.api.errors import BadRequest, InternalError, RequestTimeout, as_api_error
from actors.apiserver.http.connection.responses import Reply, Response
from actors.apiserver.http.routing.call import Call
from protocols.errors import NodeplaneError
from protocols.kube.errors import StatusError

CLIENT_LEFT = 499
"""Counted, never sent: nobody is there to read it."""


def refusal(call: Call, error: Exception) -> Response:
    """To be asked while the error is handled."""
    if isinstance(error, TimeoutError) and call.seconds:
        error = RequestTimeout(call.seconds)
    if isinstance(error, NodeplaneError):
        return _refused(call, error if isinstance(error, StatusError) else as_api_error(error)).response()
    if isinstance(error, RecursionError):  # only what a client sent can be nested that deep
        return status_reply(BadRequest("the object provided is nested too deeply")).response()
    if isinstance(error, ConnectionError):
        return web.Response(status=CLIENT_LEFT)
    # a bug of ours: the client gets a Status, the log the place
    logging.getLogger(__name__).exception("%s %s failed", call.http.method, call.http.path)
    return status_reply(InternalError(f"{type(error).__name__}: {error}")).response()


def _refused(call: Call, fault: StatusError) -> Reply:
    """With the warnings of the resource, for those who may ask of it, and of what was sent."""
    route_warnings = call.route.warnings if call.route is not None and fault.code not in (401, 403) else ()
    return replace(status_reply(fault), warnings=(*route_warnings, *fault.warnings))


def status_reply(fault: StatusError) -> Reply:
    headers = {"Retry-After": str(fault.retry_after)} if fault.retry_after else {}
    if fault.code == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="nodeplane"'
    return Reply(msgspec.json.encode(fault.status) + b"\n", fault.code, headers=headers)
