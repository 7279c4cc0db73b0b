"""A request under way: what is known of it so far, for its faults, the metrics and the audit log."""

import time

from aiohttp import web

from actors.apiserver.api.target import Target
from actors.apiserver.http.authentication.authenticator import Identity
from actors.apiserver.http.routing.route import Route
from actors.apiserver.http.telemetry.audit import Subject, subject
from actors.apiserver.http.telemetry.metrics import Place, counted_verb, place_of

NOWHERE = place_of(None)


class Call:
    __slots__ = ("began", "http", "identity", "route", "seconds", "verb")

    def __init__(self, http: web.BaseRequest) -> None:
        self.http = http
        self.began = time.monotonic()
        self.identity: Identity | None = None
        self.route: Route | None = None
        """None as long as it is not known, and of what is no resource."""
        self.seconds = 0.0
        """What it may take; 0 = no limit yet."""
        self.verb = http.method.lower()

    @property
    def target(self) -> Target | None:
        return None if self.route is None else self.route.target

    @property
    def subject(self) -> Subject:
        route = self.route
        if route is None:
            return subject(self.http.path, None)
        if route.subject is None:
            route.subject = subject(self.http.path, route.target)
        return route.subject

    @property
    def place(self) -> Place:
        return NOWHERE if self.route is None else self.route.place

    @property
    def counted(self) -> str:
        return counted_verb(self.verb, self.http.headers)
