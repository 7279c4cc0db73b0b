"""Bring a request through priority and fairness: its seats, its turn, and their release when it is answered."""

import asyncio
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from aiohttp import web

from actors.apiserver.api.user import ANONYMOUS, User
from actors.apiserver.http.connection.requests import Request
from actors.apiserver.http.fairness.control import FlowControl
from actors.apiserver.http.fairness.dispatcher import State
from actors.apiserver.http.fairness.long_running import STREAM, LongRunning
from actors.apiserver.http.fairness.width import width_of
from actors.apiserver.http.nodes.connecting import Connecting
from actors.apiserver.http.routing.route import Route, Routes
from actors.apiserver.http.routing.stalled import StalledRequests
from actors.apiserver.replica.replica import Replica


class Seats:
    def __init__(
        self, flows: FlowControl, long_running: LongRunning, stalled: StalledRequests, replicas: Mapping[str, Replica]
    ) -> None:
        self._flows, self._long_running, self._stalled, self._replicas = flows, long_running, stalled, replicas

    def take(self, http: web.BaseRequest, user: User, routes: Routes, now: float) -> Awaitable[None] | None:
        """Admit a request whose user is known. Returns what to await until its turn comes, None if it is its turn.

        The seats are released when the request's task ends, after the answer: the parts of a long list are made while
        they are written. Streams take none. Raises TooManyRequests.
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
        task.add_done_callback(lambda _: self._flows.leave(ticket))
        return None if ticket.state is State.EXECUTING else self._flows.wait(ticket, task)

    @contextmanager
    def stream(self, request: Request) -> Iterator[None]:
        """Count an exec, attach, port-forward or log as long as it is open. Raises TooManyRequests."""
        self._long_running.check(request.user, STREAM)
        end = self._long_running.begin(request.user, STREAM)
        try:
            yield
        finally:
            end()
