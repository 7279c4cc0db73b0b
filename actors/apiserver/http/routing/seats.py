"""Take a request through priority and fairness: estimate its seats, wait for its turn, release them at its end."""

import asyncio
from collections.abc import Awaitable, Mapping
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any

from aiohttp import hdrs, web

from actors.apiserver.api.errors import BadRequest
from actors.apiserver.api.request.query import flag, request_seconds
from actors.apiserver.api.request.selection import equalities, selected_name
from actors.apiserver.api.request.target import Target, query_of
from actors.apiserver.api.request.user import ANONYMOUS, User
from actors.apiserver.http.connection.requests import Request
from actors.apiserver.http.connection.unread import give_back, keep
from actors.apiserver.http.fairness.control import STREAM, WAIT_SECONDS, FlowControl, LongRunning
from actors.apiserver.http.fairness.dispatcher import MAX_WIDTH, State
from actors.apiserver.http.nodes.connecting import Connecting
from actors.apiserver.http.routing.route import Route, Routes
from actors.apiserver.http.routing.stalled import StalledRequests
from actors.apiserver.replica.replica import Replica

OBJECTS_PER_SEAT = 100
"""Objects of a list per seat (upstream: 100)."""
BODY_PER_SEAT = 256 * 1024
"""Bytes of a request body per additional seat."""
WRITES = ("create", "update", "patch")
SHORT_QUERY = 4096
"""Longer queries are not parsed for the estimate, since it comes before authorization."""
MAX_LIMIT_DIGITS = 9


def width_of(http: web.BaseRequest, target: Target, replicas: Mapping[str, Replica]) -> int:
    """Return the seats of a resource request, 1 to MAX_WIDTH."""
    if target.verb in ("list", "deletecollection"):
        replica = replicas.get(target.resource.store)
        stored = 0 if replica is None else len(replica.objects)
        query = http.query if len(http.rel_url.raw_query_string) <= SHORT_QUERY else {}
        return list_width(stored, query_of(target, query))
    if target.verb in WRITES:
        return body_width(http.headers)
    return 1


def list_width(stored: int, query: Mapping[str, str]) -> int:
    """Return the seats of a list of `stored` objects. A watch that begins with all objects costs as much as a list.

    One that names its object is a lookup in the replica. A limit saves nothing if selectors have to find what it allows
    or at version 0, where it does not count.
    """
    version, fields = query.get("resourceVersion", ""), query.get("fieldSelector", "")
    newest = version in ("", "0") and "continue" not in query
    named = newest and selected_name(equalities(fields))
    resumes = flag(query, "watch") and "sendInitialEvents" not in query and not newest
    if stored <= OBJECTS_PER_SEAT or named or resumes:
        return 1
    limit, unlimited = query.get("limit", ""), fields or query.get("labelSelector") or {*version} == {"0"}
    if limit.isdecimal() and len(limit) <= MAX_LIMIT_DIGITS and not unlimited:
        stored = min(stored, int(limit) or stored)
    return max(1, min(MAX_WIDTH, -(-stored // OBJECTS_PER_SEAT)))


def body_width(headers: Mapping[str, str]) -> int:
    """Return the seats of a write; a body without a length counts as the largest."""
    length = headers.get(hdrs.CONTENT_LENGTH)
    if length is None:
        return MAX_WIDTH if hdrs.TRANSFER_ENCODING in headers else 1
    if len(length) <= 5:  # the usual case, without parsing the number
        return 1
    return min(MAX_WIDTH, 1 + int(length) // BODY_PER_SEAT) if length.isdecimal() else MAX_WIDTH


def wait_seconds(http: web.BaseRequest) -> float:
    """Return the longest wait in a queue, as upstream: a quarter of the request's deadline, which a watch has not."""
    query = http.query if len(http.rel_url.raw_query_string) <= SHORT_QUERY else {}
    with suppress(BadRequest):  # the handler reports it once the request is authorized
        return WAIT_SECONDS if flag(query, "watch") else request_seconds(query, 4 * WAIT_SECONDS) / 4
    return WAIT_SECONDS


class Seats:
    """Admits requests and gives their seats back, whatever way they end."""

    def __init__(
        self, flows: FlowControl, long_running: LongRunning, stalled: StalledRequests, replicas: Mapping[str, Replica]
    ) -> None:
        self._flows, self._long_running, self._stalled, self._replicas = flows, long_running, stalled, replicas

    def take(self, http: web.BaseRequest, user: User, routes: Routes, now: float) -> Awaitable[None] | None:
        """Admit a request whose user is known. Returns an awaitable that ends at its turn, None if it may run now.

        The seats are released when the request's task ends, or before that when its response waits for the client: the
        parts of a long list are made while they are written. A watch keeps them until its initial events are written.
        Streams take none. Raises TooManyRequests.
        """
        route: Route | None = None
        if user.name != ANONYMOUS.name:
            route = routes.known(http) or routes.guess(http)
        self._stalled.check(http, user, None if route is None else route.target)
        if route is None:
            ticket = self._flows.enter_path(user, http.rel_url.raw_path, now)
        elif Connecting.serves(route.target.subresource):
            return None
        else:
            target = route.target
            width = width_of(http, target, self._replicas)
            ticket = self._flows.enter(user, target.resource.full_name, target.namespace, width, now)
        task: asyncio.Task[Any] | None = asyncio.current_task()
        assert task is not None, "a request is answered in a task of its own"
        leave = partial(self._flows.leave, ticket)

        def end(_: asyncio.Task[Any]) -> None:
            leave()

        task.add_done_callback(end)
        give_back.set(leave)
        keep.set(partial(task.remove_done_callback, end))
        return None if ticket.state is State.EXECUTING else self._flows.wait(ticket, task, wait_seconds(http))

    def stream(self, request: Request) -> AbstractContextManager[None]:
        """Count an exec, attach, port-forward or log as long as it is open. Raises TooManyRequests."""
        return self._long_running.held(request.user, STREAM)
